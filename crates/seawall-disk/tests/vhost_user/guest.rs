//! The guest side of vhost-user: a virtual machine with one queue, whose memory a test can fill as
//! it likes.

use seawall_io::{Clock, PosixStorage, Storage, SystemClock};
use std::fs::OpenOptions;
use std::path::Path;
use std::time::Duration;
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

pub(crate) const MEMORY: u64 = 8 << 20;
pub(crate) const QUEUE: u16 = 128;
const DESCRIPTORS: u64 = 0x1000;
const AVAILABLE: u64 = 0x2000;
const USED: u64 = 0x3000;
pub(crate) const INDIRECT: u64 = 0x4000;
pub(crate) const HEADER: u64 = 0x8000;
pub(crate) const STATUS: u64 = 0x9000;
pub(crate) const DATA: u64 = 0x10_000;

pub(crate) const READ: u32 = 0;
pub(crate) const WRITE: u32 = 1;
pub(crate) const FLUSH: u32 = 4;
pub(crate) const SERIAL: u32 = 8;
pub(crate) const ZERO: u32 = 13;

/// Flags of a descriptor.
pub(crate) const NEXT: u16 = 1;
pub(crate) const WRITABLE: u16 = 2;
pub(crate) const TABLE: u16 = 4;

pub(crate) const EVENT_INDEX: u64 = 1 << 29;
pub(crate) const KNOWS_FLUSH: u64 = 1 << 9;

/// Address, length, flags. A descriptor is chained to the next one in the table, except where a
/// test sets another.
pub(crate) type Segment = (u64, u32, u16);

pub(crate) fn pause(time: Duration) {
    SystemClock::new().sleep(time);
}

/// Waits until a condition holds; panics after 20 seconds.
pub(crate) fn wait_until(mut has_happened: impl FnMut() -> bool) {
    let clock = SystemClock::new();
    while !has_happened() {
        assert!(clock.now() < Duration::from_secs(20), "it does not happen");
        pause(Duration::from_micros(200));
    }
}

/// The memory of a virtual machine; it outlives connections to servers.
pub(crate) struct Machine {
    pub(crate) memory: GuestMemoryMmap,
    /// Requests made available so far.
    pub(crate) made: u16,
}

/// A machine that is connected to a server.
pub(crate) struct Guest<'a> {
    machine: &'a mut Machine,
    frontend: Frontend,
    /// The address of the machine's memory in this process.
    memory_at: u64,
    kick: EventFd,
    call: EventFd,
}

impl Machine {
    pub(crate) fn new(folder: &Path) -> Self {
        let path = folder.join("memory");
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap();
        // The file lives as long as it is open.
        PosixStorage::open(folder).unwrap().remove("memory").unwrap();
        file.set_len(MEMORY).unwrap();
        let size = usize::try_from(MEMORY).unwrap();
        let ranges = [(GuestAddress(0), size, Some(FileOffset::new(file, 0)))];
        Self { memory: GuestMemoryMmap::from_ranges_with_files(ranges).unwrap(), made: 0 }
    }

    pub(crate) fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write_slice(bytes, GuestAddress(at)).unwrap();
    }

    pub(crate) fn bytes(&self, at: u64, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        self.memory.read_slice(&mut bytes, GuestAddress(at)).unwrap();
        bytes
    }

    pub(crate) fn put_header(&self, kind: u32, sector: u64) {
        self.put(HEADER, &kind.to_le_bytes());
        self.put(HEADER + 4, &[0; 4]);
        self.put(HEADER + 8, &sector.to_le_bytes());
        self.put(STATUS, &[0xEE]);
    }

    pub(crate) fn put_descriptor(&self, (table, index): (u64, u16), segment: Segment, next: u16) {
        let (address, size, flags) = segment;
        let at = table + u64::from(index) * 16;
        self.put(at, &address.to_le_bytes());
        self.put(at + 8, &size.to_le_bytes());
        self.put(at + 12, &flags.to_le_bytes());
        self.put(at + 14, &next.to_le_bytes());
    }

    /// Writes a chain of descriptors into `table`, starting at `first`.
    pub(crate) fn chain(&self, table: u64, first: u16, segments: &[Segment]) {
        for (index, (address, size, flags)) in (first..).zip(segments) {
            let is_last = usize::from(index - first) + 1 == segments.len();
            let flags = if is_last { *flags } else { flags | NEXT };
            self.put_descriptor((table, index), (*address, *size, flags), index + 1);
        }
    }

    pub(crate) fn put_chain(&self, first: u16, segments: &[Segment]) {
        self.chain(DESCRIPTORS, first, segments);
    }

    /// Makes the chain at a descriptor available without notifying the server.
    pub(crate) fn make_available(&mut self, head: u16) {
        let slot = u64::from(self.made % QUEUE);
        self.put(AVAILABLE + 4 + slot * 2, &head.to_le_bytes());
        self.made = self.made.wrapping_add(1);
        self.set_available(self.made);
    }

    pub(crate) fn set_available(&self, index: u16) {
        self.put(AVAILABLE + 2, &index.to_le_bytes());
    }

    /// Sets the used index as a server leaves it that has completed `index` requests.
    pub(crate) fn set_used(&self, index: u16) {
        self.put(USED + 2, &index.to_le_bytes());
    }

    pub(crate) fn used(&self) -> u16 {
        let bytes = self.bytes(USED + 2, 2);
        u16::from_le_bytes([bytes[0], bytes[1]])
    }

    /// The length reported by the completion before index `before`.
    pub(crate) fn used_length(&self, before: u16) -> u32 {
        let slot = u64::from(before.wrapping_sub(1) % QUEUE);
        let bytes = self.bytes(USED + 4 + slot * 8 + 4, 4);
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    pub(crate) fn status(&self) -> u8 {
        self.bytes(STATUS, 1)[0]
    }

    /// Connects as QEMU does, with all features except those in `without`.
    pub(crate) fn connect(&mut self, path: &Path, without: u64) -> Guest<'_> {
        self.connect_at(path, without, 0)
    }

    /// Connects and tells the server how many requests are complete.
    pub(crate) fn connect_at(&mut self, path: &Path, without: u64, base: u16) -> Guest<'_> {
        let mut frontend = Frontend::connect(path, 16).unwrap();
        frontend.set_owner().unwrap();
        let features = frontend.get_features().unwrap() & !without;
        let protocol = frontend.get_protocol_features().unwrap();
        let wanted = VhostUserProtocolFeatures::CONFIG | VhostUserProtocolFeatures::MQ;
        assert!(protocol.contains(wanted));
        frontend.set_protocol_features(wanted).unwrap();
        frontend.set_features(features).unwrap();
        let region = self.memory.find_region(GuestAddress(0)).unwrap();
        let region = VhostUserMemoryRegionInfo::from_guest_region(region).unwrap();
        frontend.set_mem_table(&[region]).unwrap();
        let memory_at = region.userspace_addr;
        let [kick, call] = start_queue(&mut frontend, (0, base), memory_at);
        Guest { machine: self, frontend, memory_at, kick, call }
    }
}

/// Starts a queue whose rings are relative to the address `at`; returns the descriptors for kicks
/// and interrupts.
fn start_queue(frontend: &mut Frontend, (queue, base): (usize, u16), at: u64) -> [EventFd; 2] {
    let (kick, call) = (EventFd::new(0).unwrap(), EventFd::new(EFD_NONBLOCK).unwrap());
    frontend.set_vring_num(queue, QUEUE).unwrap();
    frontend.set_vring_base(queue, base).unwrap();
    let ring = VringConfigData {
        queue_max_size: QUEUE,
        queue_size: QUEUE,
        desc_table_addr: at + DESCRIPTORS,
        used_ring_addr: at + USED,
        avail_ring_addr: at + AVAILABLE,
        ..VringConfigData::default()
    };
    frontend.set_vring_addr(queue, &ring).unwrap();
    frontend.set_vring_kick(queue, &kick).unwrap();
    frontend.set_vring_call(queue, &call).unwrap();
    frontend.set_vring_enable(queue, true).unwrap();
    [kick, call]
}

impl std::ops::Deref for Guest<'_> {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        self.machine
    }
}

impl Guest<'_> {
    /// Makes a chain available and notifies the server.
    pub(crate) fn submit(&mut self, segments: &[Segment]) {
        self.put_chain(0, segments);
        self.submit_head(0);
    }

    pub(crate) fn submit_head(&mut self, head: u16) {
        self.machine.make_available(head);
        self.kick();
    }

    pub(crate) fn kick(&self) {
        self.kick.write(1).unwrap();
    }

    /// Waits until this number of requests is complete.
    pub(crate) fn wait_for(&self, used: u16) {
        wait_until(|| self.used() == used);
    }

    /// Waits for an interrupt.
    pub(crate) fn wait_for_call(&self) {
        wait_until(|| self.call.read().is_ok());
    }

    /// Waits until all requests are complete; returns the status of the last.
    pub(crate) fn complete(&self) -> u8 {
        self.wait_for(self.made);
        self.status()
    }

    pub(crate) fn write(&mut self, sector: u64, bytes: &[u8]) -> u8 {
        self.submit_write(sector, bytes);
        self.complete()
    }

    pub(crate) fn submit_write(&mut self, sector: u64, bytes: &[u8]) {
        self.put_header(WRITE, sector);
        self.put(DATA, bytes);
        let size = u32::try_from(bytes.len()).unwrap();
        self.submit(&[(HEADER, 16, 0), (DATA, size, 0), (STATUS, 1, WRITABLE)]);
    }

    pub(crate) fn read(&mut self, sector: u64, size: usize) -> Vec<u8> {
        self.put_header(READ, sector);
        let length = u32::try_from(size).unwrap();
        self.submit(&[(HEADER, 16, 0), (DATA, length, WRITABLE), (STATUS, 1, WRITABLE)]);
        assert_eq!(self.complete(), 0);
        assert_eq!(self.used_length(self.made), length + 1);
        self.bytes(DATA, size)
    }

    pub(crate) fn flush(&mut self) -> u8 {
        self.submit_flush();
        self.complete()
    }

    pub(crate) fn submit_flush(&mut self) {
        self.put_header(FLUSH, 0);
        self.submit(&[(HEADER, 16, 0), (STATUS, 1, WRITABLE)]);
    }

    pub(crate) fn config(&mut self, size: u32) -> Vec<u8> {
        let space = vec![0; usize::try_from(size).unwrap()];
        let flags = VhostUserConfigFlags::empty();
        self.frontend.get_config(0, size, flags, &space).unwrap().1
    }

    /// Executes one chain in the second queue, whose rings are 4 MiB after those of the first.
    pub(crate) fn complete_in_second_queue(&mut self, segments: &[Segment]) {
        const BEHIND: u64 = 4 << 20;
        let at = self.memory_at + BEHIND;
        let [kick, _call] = start_queue(&mut self.frontend, (1, 0), at);
        self.chain(BEHIND + DESCRIPTORS, 0, segments);
        self.put(BEHIND + AVAILABLE + 2, &1_u16.to_le_bytes());
        kick.write(1).unwrap();
        wait_until(|| self.bytes(BEHIND + USED + 2, 1) == [1]);
    }

    /// Stops the ring and returns the index that the server has reached.
    pub(crate) fn stop_ring(&self) -> u32 {
        self.frontend.get_vring_base(0).unwrap()
    }
}
