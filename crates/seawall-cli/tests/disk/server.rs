//! A server under test, and its control socket.

use super::*;

/// Longer than any step of these tests takes, on any machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A server process, killed on drop if it still runs.
pub(super) struct Server<'a> {
    pub(super) child: Child,
    pub(super) folder: &'a Folder,
    pub(super) ready: String,
    /// The lines of standard output after `ready`.
    pub(super) rest: mpsc::Receiver<String>,
}

impl<'a> Server<'a> {
    pub(super) fn start(folder: &'a Folder, arguments: &str) -> Self {
        Self::of(folder, folder.command(&format!("disk serve {arguments}")))
    }

    pub(super) fn of(folder: &'a Folder, mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, rest) = mpsc::channel();
        std::thread::spawn(move || {
            while let Some(Ok(line)) = lines.next() {
                let _ = sender.send(line);
            }
        });
        let ready = rest.recv_timeout(PATIENCE);
        let ready = ready.unwrap_or_else(|_| panic!("{:?}", error_of(&mut child)));
        Self { child, folder, ready, rest }
    }

    pub(super) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Waits until standard output is closed and the process has ended; returns its status and
    /// standard error.
    pub(super) fn ended(mut self) -> (ExitStatus, String) {
        loop {
            match self.rest.recv_timeout(PATIENCE) {
                Ok(_) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("it does not end"),
            }
        }
        let status = self.child.wait().unwrap();
        (status, error_of(&mut self.child))
    }

    /// Sends one request to the control socket and returns the answer.
    pub(super) fn ask(&self, request: &Value) -> Value {
        let mut stream = UnixStream::connect(self.folder.path("vd.seawall/control")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("{request}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
    }

    pub(super) fn state(&self) -> String {
        self.ask(&json!({ "do": "status" }))["state"].as_str().unwrap().to_owned()
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn error_of(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(mut error) = child.stderr.take() {
        let _ = child.kill();
        error.read_to_string(&mut text).unwrap();
    }
    text
}
