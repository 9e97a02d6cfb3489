//! Landlock: the files and TCP ports that a process can reach.

use super::needs::{Guard, Needs};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, NetPort, PathBeneath, PathFd,
    RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
    make_bitflags,
};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// The newest version to request; an older kernel enforces the part that it has.
const ASKED: ABI = ABI::V6;
/// The index of the loader of shared libraries.
const LIBRARIES: &str = "/etc/ld.so.cache";
const NOWHERE: &str = "/dev/null";
const ITSELF: &str = "/proc/self/exe";

pub(super) fn confine(needs: &Needs) -> io::Result<Guard> {
    let rules = rules(needs)?;
    let status = restrict(rules, &needs.ports).map_err(io::Error::other)?;
    Ok(match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => {
            let is_it = |number: &u8| ABI::from(i32::from(*number)) == effective_abi;
            Guard::On((1..u8::MAX).find(is_it).unwrap_or(u8::MAX))
        }
        _ => Guard::Absent,
    })
}

/// Files and directories, each with the access allowed to it and to all below it.
type Rules = Vec<(PathFd, BitFlags<AccessFs>)>;

fn rules(needs: &Needs) -> io::Result<Rules> {
    let read = BitFlags::from(AccessFs::ReadFile);
    let both = read | AccessFs::WriteFile | AccessFs::Truncate;
    let run = read | AccessFs::Execute;
    let all = both | make_bitflags!(AccessFs::{ReadDir | RemoveFile | MakeReg | MakeSock});
    let mut rules = vec![];
    let mut add = |path: &Path, access| {
        rules.push((PathFd::new(path).map_err(io::Error::other)?, access));
        io::Result::Ok(())
    };
    needs.folders.iter().try_for_each(|path| add(path, all))?;
    needs.files.iter().try_for_each(|path| add(path, both))?;
    let remove = AccessFs::RemoveFile.into();
    needs.removals.iter().try_for_each(|path| add(path, remove))?;
    if needs.may_start_itself {
        // This name finds the program even if a newer version has taken its path.
        add(Path::new(ITSELF), run)?;
        add(Path::new(NOWHERE), both)?;
        libraries()?.iter().try_for_each(|folder| add(folder, run))?;
        if Path::new(LIBRARIES).exists() {
            add(Path::new(LIBRARIES), read)?;
        }
    }
    Ok(rules)
}

/// The directories of this process's shared libraries and of their loader: an update may replace
/// each of them.
fn libraries() -> io::Result<BTreeSet<PathBuf>> {
    let table = std::fs::read_to_string("/proc/self/maps")?;
    let own = std::fs::read_link(ITSELF)?;
    let paths = table.lines().filter_map(|line| {
        let is_code = line.split_ascii_whitespace().nth(1).is_some_and(|how| how.contains('x'));
        line.find('/').and_then(|at| line.get(at..)).filter(|_| is_code).map(Path::new)
    });
    let folders = paths.filter(|path| *path != own).filter_map(Path::parent);
    Ok(folders.filter(|folder| folder.is_dir()).map(Path::to_owned).collect())
}

fn restrict(rules: Rules, ports: &[u16]) -> Result<RestrictionStatus, RulesetError> {
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(ASKED))?
        .handle_access(AccessNet::from_all(ASKED))?
        .scope(Scope::from_all(ASKED))?
        .create()?;
    for (object, access) in rules {
        ruleset = ruleset.add_rule(PathBeneath::new(object, access))?;
    }
    for port in ports {
        ruleset = ruleset.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
    }
    ruleset.restrict_self()
}
