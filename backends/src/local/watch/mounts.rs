//! File systems that others change behind the back of this system. Which one a directory is on is found out without asking the
//! file system: one that does not answer would keep the thread for good.

use rustix::{
    fs::{AtFlags, StatxFlags, fstatfs, makedev, statx},
    io::Errno,
};
use std::{fs, os::fd::BorrowedFd};

/// Their types: of each also what is behind a dot, as in `fuse.sshfs`.
const TYPES: [&str; 14] = [
    "9p", "afs", "ceph", "cifs", "coda", "fuse", "fuseblk", "lustre", "ncpfs", "nfs", "nfs4", "smb3",
    "vboxsf", "virtiofs",
];

/// The same by the numbers of `statfs(2)`: NFS, SMB (three of them), CIFS, FUSE, 9P, Ceph, AFS (two of them), Coda, NCP, Lustre,
/// VirtualBox's shared folders.
const NUMBERS: [u32; 14] = [
    0x6969,
    0x517b,
    0xfe53_4d42,
    0x534d_4231,
    0xff53_4d42,
    0x6573_5546,
    0x0102_1997,
    0x00c3_6400,
    0x5346_414f,
    0x6b41_4653,
    0x7375_7245,
    0x564c,
    0x0bd0_0bd0,
    0x786f_4256,
];

/// Which directory it is: its device and its number there, as far as this system knows without asking.
pub(super) fn identity(directory: BorrowedFd<'_>) -> Result<(u64, u64), Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = statx(directory, "", flags, StatxFlags::INO)?;
    Ok((makedev(stat.stx_dev_major, stat.stx_dev_minor), stat.stx_ino))
}

/// Whether the directory, which has this device, is on such a file system.
pub(super) fn is_network(directory: BorrowedFd<'_>, device: u64) -> bool {
    let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap_or_default();
    type_of(&mounts, device).map_or_else(
        // A part of a file system with a device of its own: those are local.
        || fstatfs(directory).is_ok_and(|stat| NUMBERS.contains(&(stat.f_type as u32))),
        |kind| TYPES.contains(&kind.split('.').next().unwrap_or(kind)),
    )
}

/// The type of the file system with this device, by `mountinfo`.
fn type_of(mounts: &str, device: u64) -> Option<&str> {
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let mount = mounts.lines().find(|mount| mount.split(' ').nth(2) == Some(&number))?;
    mount.split_once(" - ")?.1.split(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_a_mount_is_found_by_its_device() {
        let mounts = "22 27 0:21 / /proc rw,relatime - proc proc rw\n\
                      30 27 254:0 / / rw shared:1 master:2 - ext4 /dev/vda rw\n\
                      41 30 0:44 / /a\\040-\\040b rw - fuse.sshfs me@there:/ rw\n";
        let found = |major, minor| type_of(mounts, makedev(major, minor));
        assert_eq!(found(254, 0), Some("ext4"));
        assert_eq!(found(0, 44), Some("fuse.sshfs"));
        assert_eq!(found(0, 4), None);
    }
}
