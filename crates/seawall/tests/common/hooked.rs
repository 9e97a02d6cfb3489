//! A device where something happens just before the nth look at it, lock, or file made there: a
//! race, each time the same.

use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, Mutex};

use seawall_io::Storage;

use super::watched::{Call, Watch, Watched};

/// Storage, and what happens beside.
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
    /// `act` happens before look `at` from now, counted from 0.
    pub fn plan(&self, at: u64, act: impl FnOnce() + Send + 'static) {
        let mut state = self.0.lock().unwrap();
        state.planned = Some((state.looks + at, Box::new(act)));
    }

    /// Whether what was planned has not happened.
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
    /// `act` happens before look `at`, counted from 0.
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
