//! The thread that has the connection, and the queue to it.

use super::{super::Answer, StoreError, fault::of};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::{sync::Arc, thread::JoinHandle};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// What may wait, in pieces of [`PIECE`] bytes: each request is one piece at least. So these are also the most requests
/// that wait, and that are committed together.
const ROOM: u32 = 1024;
const PIECE: usize = 1024;

/// The queue, and the thread at its end.
pub(super) struct Thread {
    /// None once it is being dropped.
    requests: Option<mpsc::UnboundedSender<Request>>,
    room: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

struct Request {
    work: Box<dyn Work>,
    _room: OwnedSemaphorePermit,
}

impl Thread {
    pub(super) fn start(connection: Connection) -> Result<Self, StoreError> {
        let (requests, queue) = mpsc::unbounded_channel();
        let thread = std::thread::Builder::new()
            .name("hangar-store".into())
            .spawn(move || serve(connection, queue))
            .map_err(|error| StoreError::Broken(format!("there is no thread for the store: {error}")))?;
        let room = Arc::new(Semaphore::new(ROOM as usize));
        Ok(Self { requests: Some(requests), room, thread: Some(thread) })
    }

    /// Does something in a transaction, and gives the answer once that is on the disk. An error undoes what the work did,
    /// and nothing else. What it takes along are so many bytes.
    pub(super) fn call<'a, T: Send + 'static>(
        &'a self,
        bytes: usize,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            let ended = || StoreError::Broken("the store's thread has ended".to_owned());
            // What is larger than all the room there is goes alone.
            let pieces = u32::try_from(bytes / PIECE).unwrap_or(ROOM).saturating_add(1).min(ROOM);
            let room = Arc::clone(&self.room).acquire_many_owned(pieces).await.map_err(|_| ended())?;
            let (done, answer) = oneshot::channel();
            let work = Box::new(Waiting { work: Some(work), result: None, done });
            let requests = self.requests.as_ref().ok_or_else(ended)?;
            requests.send(Request { work, _room: room }).map_err(|_| ended())?;
            answer.await.map_err(|_| ended())?
        })
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.requests = None;
        // It panicked: whoever waited for it has heard of that.
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}

fn serve(mut connection: Connection, mut queue: mpsc::UnboundedReceiver<Request>) {
    let mut batch = Vec::new();
    while queue.blocking_recv_many(&mut batch, ROOM as usize) > 0 {
        let committed = commit(&mut connection, &mut batch);
        for Request { work, _room } in batch.drain(..) {
            work.finish(committed.clone());
        }
    }
}

/// Runs all of them, and commits. An error is everybody's: nothing of it is stored, and what was read may have been what
/// others wrote.
fn commit(connection: &mut Connection, batch: &mut [Request]) -> Result<(), StoreError> {
    // At once for writing: a transaction that begins to write later can find that another process has written since it
    // read.
    let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(of)?;
    for request in batch {
        request.work.run(&mut transaction)?;
    }
    transaction.commit().map_err(of)
}

/// Something to do, whatever it gives.
trait Work: Send {
    /// Does it. An error has ended the whole transaction.
    fn run(&mut self, transaction: &mut Transaction<'_>) -> Result<(), StoreError>;

    /// Tells who waits.
    fn finish(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Waiting<T, F> {
    work: Option<F>,
    result: Option<Result<T, StoreError>>,
    done: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Work for Waiting<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> Result<T, StoreError> + Send,
{
    fn run(&mut self, transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
        let Some(work) = self.work.take() else { return Ok(()) };
        let savepoint = transaction.savepoint().map_err(of)?;
        let result = work(&savepoint);
        // After some errors, a full disk among them, SQLite has undone everything; another statement would be in a
        // transaction of its own.
        if let Err(error) = &result
            && savepoint.is_autocommit()
        {
            return Err(error.clone());
        }
        match &result {
            Ok(_) => savepoint.commit(),
            Err(_) => savepoint.finish(),
        }
        .map_err(of)?;
        self.result = Some(result);
        Ok(())
    }

    fn finish(self: Box<Self>, committed: Result<(), StoreError>) {
        // Nobody waits any more: there is nobody to tell.
        drop(self.done.send(match (committed, self.result) {
            (Ok(()), Some(result)) => result,
            (Err(error), _) => Err(error),
            (Ok(()), None) => Err(StoreError::Broken("it was not carried out".to_owned())),
        }));
    }
}
