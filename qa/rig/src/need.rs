//! Checks the requirements of a run: the right to mount, the tools, PostgreSQL and its user.

use crate::args::{Bench, Crash, Engine, Figures, Load, Place, Suite, SuiteOf};
use crate::drill::qemu::look_for_machine;
use crate::process::find;
use crate::suite::{look_for_mtr, look_for_regress};
use crate::uml::{KERNEL, MAKER};
use crate::workload::TPCC;
use std::fs;
use std::path::{Path, PathBuf};

const TOOLS: &[&str] = &["losetup", "mkfs.ext4", "mount", "umount"];
const PROGRAMS: &[&str] = &["initdb", "postgres", "psql", "pgbench"];

/// The server of Network UPS Tools.
pub(crate) const UPSD: &str = "/lib/nut/upsd";
/// Its driver without a UPS.
pub(crate) const DUMMY_UPS: &str = "/lib/nut/dummy-ups";

/// What a run works with.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    /// The folder with all that the run makes.
    pub(crate) dir: PathBuf,
    /// The seawall that is tried.
    pub(crate) seawall: PathBuf,
    /// The folder of PostgreSQL's programs.
    pub(crate) programs: PathBuf,
    /// Number and group of the database's user: most refuse root.
    pub(crate) user: (u32, u32),
}

/// Where the run's files go, if nothing else was said.
pub(crate) fn folder(place: &Place) -> PathBuf {
    let folder = place.dir.clone().unwrap_or_else(|| std::env::temp_dir().join("seawall-rig"));
    std::path::absolute(&folder).unwrap_or(folder)
}

/// All that has to be there.
///
/// # Errors
///
/// What is missing, and how to get it.
pub(crate) fn look(place: &Place) -> Result<Ground, String> {
    look_for(Engine::Postgres, place)
}

/// The same for another database.
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

/// What a bench takes.
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

/// What a database's own tests take.
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

/// What crashes take.
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

/// What each database of the figures takes.
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

/// The rig itself runs TPC-C where one process has the database for itself.
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

/// What it takes to mount a file: root, devices, tools.
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

/// The seawall that is tried; `features` says how one is built that can do all of it.
fn program(place: &Place, features: &str) -> Result<PathBuf, String> {
    program_or_beside(place.seawall.clone(), features)
}

/// The seawall that a drill tries: `wanted`, or the one beside this program.
///
/// # Errors
///
/// There is none.
pub(crate) fn seawall(wanted: Option<PathBuf>) -> Result<PathBuf, String> {
    program_or_beside(wanted, "")
}

fn program_or_beside(wanted: Option<PathBuf>, features: &str) -> Result<PathBuf, String> {
    let seawall = wanted.or_else(beside).filter(|path| path.is_file());
    let seawall = seawall.ok_or_else(|| {
        let next = format!("cargo build --release -p seawall-cli{features}, or say --seawall");
        format!("there is no seawall beside this program: {next}")
    })?;
    // It is started in other folders.
    Ok(std::path::absolute(&seawall).unwrap_or(seawall))
}

/// What a device takes that goes away under a log: the folder of the run, and the seawall.
///
/// # Errors
///
/// As [`look`].
pub(crate) fn look_for_detach(place: &Place) -> Result<(PathBuf, PathBuf), String> {
    look_for_mounts(&["/dev/loop-control"])?;
    Ok((folder(place), program(place, "")?))
}

/// What a guest takes beside.
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

/// What it takes to boot a guest of QEMU: the folder of the run, and the seawall.
///
/// # Errors
///
/// As [`look`].
pub(crate) fn look_for_qemu(place: &Place, kernel: &Path) -> Result<(PathBuf, PathBuf), String> {
    look_for_machine(kernel)?;
    Ok((folder(place), program(place, " --features seawall-cli/vhost-user")?))
}

/// What it takes to ask a real upsd, whose driver pretends to have a UPS.
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

/// The numbers of a user and its group.
fn number_of(user: &str) -> Option<(u32, u32)> {
    let text = fs::read_to_string("/etc/passwd").ok()?;
    let line = text.lines().find(|line| line.split(':').next() == Some(user))?;
    let mut fields = line.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

impl Ground {
    /// A program of PostgreSQL.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// A folder below that of the run, which the database's user has.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub(crate) fn folder_of_user(&self, name: &str) -> std::io::Result<PathBuf> {
        let path = self.dir.join(name);
        fs::create_dir(&path)?;
        self.give(&path)?;
        Ok(path)
    }

    /// Gives a file to the database's user.
    ///
    /// # Errors
    ///
    /// Whatever the system says.
    pub(crate) fn give(&self, path: &Path) -> std::io::Result<()> {
        let (user, group) = self.user;
        std::os::unix::fs::chown(path, Some(user), Some(group))
    }
}
