//! Sandboxes on this machine, as a plane has them.

use super::{
    Plane,
    sandboxes::{Factory, LOCAL, Made, NewLocal},
};
use crate::ApiError;
use hangar_backends::{
    Runtime, Sandbox,
    daemonless::{DaemonlessSandbox, local::LocalProvider},
    local::{Config, LocalSandbox, User},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Makes sandboxes on this machine.
pub struct Local {
    runtime: Arc<dyn Runtime>,
    user: Option<User>,
}

impl Local {
    /// Commands run as `user`, or as the server's own user: then the sandboxes are for admins alone.
    pub fn new(runtime: Arc<dyn Runtime>, user: Option<User>) -> Self {
        Self { runtime, user }
    }

    fn make(&self, id: Option<&str>, directory: Option<PathBuf>, daemon: bool) -> Made {
        let workdir = directory.as_ref().map(|directory| directory.to_string_lossy().into_owned());
        let (user, id) = (self.user.clone(), id.map(str::to_owned));
        let config = Config { user, directory, id, ..Config::default() };
        let sandbox = LocalSandbox::new(Arc::clone(&self.runtime), config);
        let sandbox: Arc<dyn Sandbox> = if daemon {
            Arc::new(sandbox)
        } else {
            let provider = Arc::new(LocalProvider::new(sandbox));
            Arc::new(DaemonlessSandbox::new(Arc::clone(&self.runtime), provider))
        };
        Made {
            sandbox,
            provider: LOCAL,
            url: None,
            workdir,
            daemon,
            // What is detached runs on.
            is_remembered: !daemon,
            open_to_users: self.user.is_some(),
        }
    }

    /// Gives a plane the sandbox `local`, and lets more be made.
    pub fn offer(self, plane: &Plane) -> Result<(), ApiError> {
        plane.add_sandbox("local", self.make(None, None, true))?;
        plane.sandboxes().set_factory(Arc::new(self));
        Ok(())
    }

    /// Gives a plane the one sandbox `local`, in a directory.
    pub fn offer_in(&self, plane: &Plane, directory: &Path) -> Result<(), ApiError> {
        plane.add_sandbox("local", self.make(None, Some(directory.to_owned()), true))?;
        Ok(())
    }
}

impl Factory for Local {
    fn create(&self, id: &str, new: &NewLocal) -> Result<Made, ApiError> {
        let workdir = new.workdir.as_deref();
        if let Some(workdir) = workdir
            && !(Path::new(workdir).is_absolute() && !workdir.contains('\0') && Path::new(workdir).is_dir())
        {
            let message = format!("workdir: {workdir} is not the absolute path of a directory");
            return Err(ApiError::bad_field("workdir", "bad_workdir", message));
        }
        Ok(self.create_again(id, new))
    }

    fn create_again(&self, id: &str, new: &NewLocal) -> Made {
        self.make(Some(id), new.workdir.as_ref().map(PathBuf::from), new.daemon)
    }
}
