//! A device that holds one kind of call at a gate until a test opens it.

use std::sync::{Arc, Condvar, Mutex};

use seawall_io::Storage;

use super::watched::{Call, Watch, Watched};

/// Storage whose file syncs, or other calls, wait while the gate is shut.
pub type Gated = Watched<Gate>;

#[derive(Debug)]
pub struct Gate {
    /// The call to hold.
    call: Call,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    shut: bool,
    /// Number of calls that may pass while the gate is shut.
    passes: u64,
    waiting: u64,
}

impl Gate {
    pub fn shut(&self) {
        self.state.lock().unwrap().shut = true;
    }

    pub fn open(&self) {
        self.state.lock().unwrap().shut = false;
        self.changed.notify_all();
    }

    /// Lets one call through a gate that stays shut.
    pub fn pass_one(&self) {
        self.state.lock().unwrap().passes += 1;
        self.changed.notify_all();
    }

    /// Waits until a call is held at the gate.
    pub fn wait_for_somebody(&self) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| state.waiting == 0).unwrap());
    }

    /// Whether a call is held at the gate and none was let through with [`Self::pass_one`].
    pub fn is_waited_at(&self) -> bool {
        let state = self.state.lock().unwrap();
        state.waiting > 0 && state.passes == 0
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.waiting += 1;
        self.changed.notify_all();
        let mut state =
            self.changed.wait_while(state, |state| state.shut && state.passes == 0).unwrap();
        state.waiting -= 1;
        if state.shut {
            state.passes -= 1;
        }
    }
}

impl Watch for Gate {
    fn before(&self, call: Call) {
        if call == self.call {
            self.pass();
        }
    }
}

impl Gated {
    pub fn new(inner: impl Storage + 'static) -> (Self, Arc<Gate>) {
        Self::before(Call::Sync, inner)
    }

    pub fn before(call: Call, inner: impl Storage + 'static) -> (Self, Arc<Gate>) {
        Self::by(Gate { call, state: Mutex::default(), changed: Condvar::new() }, inner)
    }
}
