//! A device that runs a closure just before the nth read, lock, listing, open or creation: a race
//! that is the same in every run.

use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, Mutex};

use seawall_io::Storage;

use super::watched::{Call, Watch, Watched};

/// Storage that runs a planned closure before one of its calls.
pub type Hooked = Watched<Hook>;

#[derive(Default)]
pub struct Hook(Mutex<State>);

#[derive(Default)]
struct State {
    looks: u64,
    planned: Option<(u64, Act)>,
}

type Act = Box<dyn FnOnce() + Send>;

impl Hook {
    /// Plans `act` to run before look `at` from now, counted from 0.
    pub fn plan(&self, at: u64, act: impl FnOnce() + Send + 'static) {
        let mut state = self.0.lock().unwrap();
        state.planned = Some((state.looks + at, Box::new(act)));
    }

    /// Whether the planned closure has not run yet.
    pub fn is_waiting(&self) -> bool {
        self.0.lock().unwrap().planned.is_some()
    }

    fn look(&self) {
        let mut state = self.0.lock().unwrap();
        let looks = state.looks;
        let due = state.planned.take_if(|(at, _)| *at == looks);
        state.looks += 1;
        drop(state);
        if let Some((_, act)) = due {
            act();
        }
    }
}

impl Watch for Hook {
    fn before(&self, call: Call) {
        use Call::{Create, IsLocked, Len, List, Lock, Open, Read};
        if matches!(call, Open(_) | Create | List | Lock | IsLocked | Read | Len) {
            self.look();
        }
    }
}

impl Hooked {
    /// Storage that runs `act` before look `at`, counted from 0.
    pub fn new(
        inner: impl Storage + 'static,
        at: u64,
        act: impl FnOnce() + Send + 'static,
    ) -> (Self, Arc<Hook>) {
        let hook = Hook::default();
        hook.plan(at, act);
        Self::by(hook, inner)
    }
}

impl Debug for Hook {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook").finish_non_exhaustive()
    }
}
