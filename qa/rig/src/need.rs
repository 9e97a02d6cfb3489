//! Checks the requirements of a run: the right to mount, the tools, PostgreSQL and its user.

use crate::args::{Bench, Crash, Engine, Figures, Load, Place, Suite, SuiteOf};
use crate::process::find;
use crate::verbs::drill::qemu::look_for_machine;
use crate::verbs::guest::uml::{KERNEL, MAKER};
use crate::verbs::suite::{look_for_mtr, look_for_regress};
use crate::workload::TPCC;
use std::fs;
use std::path::{Path, PathBuf};

const TOOLS: &[&str] = &["losetup", "mkfs.ext4", "mount", "umount"];
const PROGRAMS: &[&str] = &["initdb", "postgres", "psql", "pgbench"];

/// The server of Network UPS Tools.
pub(crate) const UPSD: &str = "/lib/nut/upsd";
/// The driver of Network UPS Tools that simulates a UPS.
pub(crate) const DUMMY_UPS: &str = "/lib/nut/dummy-ups";

/// The folder, programs and user of a run.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    /// The folder for everything that the run makes.
    pub(crate) dir: PathBuf,
    /// The program `seawall` under test.
    pub(crate) seawall: PathBuf,
    /// The folder with PostgreSQL's programs.
    pub(crate) programs: PathBuf,
    /// User and group id of the database's user, since most databases refuse root.
    pub(crate) user: (u32, u32),
}

/// The folder for the run's files; a default unless `--dir` names one.
pub(crate) fn folder(place: &Place) -> PathBuf {
    let folder = place.dir.clone().unwrap_or_else(|| std::env::temp_dir().join("seawall-rig"));
    std::path::absolute(&folder).unwrap_or(folder)
}

/// Checks the requirements of a run with PostgreSQL.
///
/// # Errors
///
/// Names what is missing, and how to get it.
pub(crate) fn look(place: &Place) -> Result<Ground, String> {
    look_for(Engine::Postgres, place)
}

/// Checks the requirements of a run with this database.
///
/// # Errors
///
/// As [`look`].
pub(crate) fn look_for(engine: Engine, place: &Place) -> Result<Ground, String> {
    look_for_mounts(&["/dev/fuse", "/dev/loop-control"])?;
    let user = match engine {
        Engine::Postgres => {
            look_for_postgres(place)?;
            "postgres"
        }
        Engine::Mariadb => {
            look_for_programs(&["mariadbd", "mariadb-install-db", "mariadb"], "mariadb-server")?;
            "mysql"
        }
        Engine::Sqlite => {
            look_for_programs(&["sqlite3"], "sqlite3")?;
            "nobody"
        }
    };
    let user = number_of(user).ok_or_else(|| format!("there is no user {user}"))?;
    let seawall = program(place, " --features seawall-cli/fuse")?;
    Ok(Ground { dir: folder(place), seawall, programs: place.postgres.clone(), user })
}

/// Checks the requirements of a bench.
///
/// # Errors
///
/// As [`look`].
pub(crate) fn look_for_bench(args: &Bench) -> Result<Ground, String> {
    if args.load == Load::Tpcc {
        look_for_tpcc(args.database)?;
    }
    look_for(args.database, &args.place)
}

/// Checks the requirements of a database's own tests.
///
/// # Errors
///
/// As [`look`].
pub(crate) fn look_for_suite(args: &Suite) -> Result<Ground, String> {
    let ground = look_for(args.database.engine(), &args.place)?;
    match args.database {
        SuiteOf::Postgres => look_for_regress(&ground, &args.regress)?,
        SuiteOf::Mariadb => look_for_mtr()?,
    }
    Ok(ground)
}

/// Checks the requirements of crashes.
///
/// # Errors
///
/// As [`look`].
pub(crate) fn look_for_crash(args: &Crash) -> Result<Ground, String> {
    if args.tpcc {
        look_for_tpcc(args.database)?;
    }
    look_for(args.database, &args.place)
}

/// Checks the requirements of each database of the figures.
///
/// # Errors
///
/// As [`look`].
pub(crate) fn look_for_figures(args: &Figures) -> Result<Vec<(Engine, Ground)>, String> {
    let look = |engine: &Engine| {
        look_for_tpcc(*engine)?;
        Ok((*engine, look_for(*engine, &args.place)?))
    };
    args.databases.iter().map(look).collect()
}

/// Checks that go-tpc is installed. For `SQLite`, the rig itself runs TPC-C.
fn look_for_tpcc(engine: Engine) -> Result<(), String> {
    if engine == Engine::Sqlite {
        return Ok(());
    }
    let how = "go install github.com/pingcap/go-tpc/cmd/go-tpc@v1.0.12";
    find(TPCC).map(drop).ok_or_else(|| format!("{TPCC} is not there: {how}"))
}

fn look_for_postgres(place: &Place) -> Result<(), String> {
    for program in PROGRAMS {
        let path = place.postgres.join(program);
        if !path.is_file() {
            let next = "apt-get install postgresql-15, or say --postgres";
            return Err(format!("{} is not there: {next}", path.display()));
        }
    }
    Ok(())
}

fn look_for_programs(programs: &[&str], package: &str) -> Result<(), String> {
    let missing = programs.iter().find(|program| find(program).is_none());
    missing
        .map_or(Ok(()), |program| Err(format!("{program} is not there: apt-get install {package}")))
}

/// Checks the requirements for mounting a file: root, devices and tools.
fn look_for_mounts(devices: &[&str]) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("it takes root to mount".to_owned());
    }
    for device in devices {
        let opened = fs::OpenOptions::new().read(true).write(true).open(device);
        opened.map_err(|error| format!("{device} cannot be opened: {error}"))?;
    }
    for tool in TOOLS {
        find(tool).ok_or_else(|| format!("{tool} is not installed: apt-get install e2fsprogs"))?;
    }
    Ok(())
}

/// Finds the program `seawall` under test; `features` are those to build it with if it is missing.
fn program(place: &Place, features: &str) -> Result<PathBuf, String> {
    program_or_beside(place.seawall.clone(), features)
}

/// Finds the program `seawall` for a drill: `wanted`, or the one beside this program.
///
/// # Errors
///
/// The program is missing.
pub(crate) fn seawall(wanted: Option<PathBuf>) -> Result<PathBuf, String> {
    program_or_beside(wanted, "")
}

fn program_or_beside(wanted: Option<PathBuf>, features: &str) -> Result<PathBuf, String> {
    let seawall = wanted.or_else(beside).filter(|path| path.is_file());
    let seawall = seawall.ok_or_else(|| {
        let next = format!("cargo build --release -p seawall-cli{features}, or say --seawall");
        format!("there is no seawall beside this program: {next}")
    })?;
    // Absolute, because the program is started in other folders.
    Ok(std::path::absolute(&seawall).unwrap_or(seawall))
}

/// Checks the requirements of `detach`. Returns the folder of the run, and the program `seawall`.
///
/// # Errors
///
/// As [`look`].
pub(crate) fn look_for_detach(place: &Place) -> Result<(PathBuf, PathBuf), String> {
    look_for_mounts(&["/dev/loop-control"])?;
    Ok((folder(place), program(place, "")?))
}

/// Checks the requirements of a guest, in addition to those of [`look`].
///
/// # Errors
///
/// As [`look`].
pub(crate) fn look_for_guest(place: &Place, root: &Path) -> Result<Ground, String> {
    let ground = look(place)?;
    find(KERNEL)
        .ok_or_else(|| format!("{KERNEL} is not there: apt-get install user-mode-linux"))?;
    if !root.is_file() {
        let why = || format!("there is no {}, and no {MAKER} to make it", root.display());
        find(MAKER).ok_or_else(|| format!("{}: apt-get install {MAKER}", why()))?;
    }
    Ok(ground)
}

/// Checks the requirements of `qemu`. Returns the folder of the run, and the program `seawall`.
///
/// # Errors
///
/// As [`look`].
pub(crate) fn look_for_qemu(place: &Place, kernel: &Path) -> Result<(PathBuf, PathBuf), String> {
    look_for_machine(kernel)?;
    Ok((folder(place), program(place, " --features seawall-cli/vhost-user")?))
}

/// Checks that upsd is installed, with the driver that simulates a UPS.
///
/// # Errors
///
/// As [`look`].
pub(crate) fn look_for_upsd() -> Result<(), String> {
    for program in [UPSD, DUMMY_UPS] {
        if !Path::new(program).is_file() {
            return Err(format!("{program} is not there: apt-get install nut-server"));
        }
    }
    Ok(())
}

fn beside() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.join("seawall"))
}

/// The ids of a user and its group.
fn number_of(user: &str) -> Option<(u32, u32)> {
    let text = fs::read_to_string("/etc/passwd").ok()?;
    let line = text.lines().find(|line| line.split(':').next() == Some(user))?;
    let mut fields = line.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

impl Ground {
    /// The path of a PostgreSQL program.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// Creates a folder in that of the run, owned by the database's user.
    ///
    /// # Errors
    ///
    /// The folder cannot be created.
    pub(crate) fn folder_of_user(&self, name: &str) -> std::io::Result<PathBuf> {
        let path = self.dir.join(name);
        fs::create_dir(&path)?;
        self.give(&path)?;
        Ok(path)
    }

    /// Makes the database's user the owner of a file.
    ///
    /// # Errors
    ///
    /// The owner cannot be changed.
    pub(crate) fn give(&self, path: &Path) -> std::io::Result<()> {
        let (user, group) = self.user;
        std::os::unix::fs::chown(path, Some(user), Some(group))
    }
}
