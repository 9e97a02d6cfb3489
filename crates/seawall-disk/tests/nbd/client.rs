//! An NBD client for tests that works byte by byte and can break the protocol.

use seawall_disk::nbd::{Address, Server};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const DISC: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const ZERO: u16 = 6;

pub(crate) const FUA: u16 = 1;
pub(crate) const DF: u16 = 4;

pub(crate) const EXPORT_NAME: u32 = 1;
pub(crate) const ABORT: u32 = 2;
pub(crate) const LIST: u32 = 3;
pub(crate) const INFO: u32 = 6;
pub(crate) const GO: u32 = 7;
pub(crate) const STRUCTURED: u32 = 8;

pub(crate) const ACK: u32 = 1;
pub(crate) const ERROR: u32 = 1 << 31;

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    pub(crate) is_structured: bool,
    handle: u64,
}

impl Client {
    /// Connects and reads the greeting.
    pub(crate) fn new(server: &Server) -> Self {
        let Address::Tcp(address) = server.address() else { panic!("these tests go by TCP") };
        let stream = TcpStream::connect(address).unwrap();
        let mut client = Self { stream, is_structured: false, handle: 100 };
        assert_eq!(client.bytes(18), b"NBDMAGICIHAVEOPT\0\x03");
        client
    }

    /// Connects and chooses the export, ready for requests.
    pub(crate) fn simple(server: &Server) -> Self {
        let mut client = Self::new(server);
        client.send(&[0, 0, 0, 3]);
        client.option(EXPORT_NAME, b"log");
        client.bytes(10);
        client
    }

    /// Connects, enables structured replies and chooses the export.
    pub(crate) fn structured(server: &Server) -> Self {
        let mut client = Self::new(server);
        client.send(&[0, 0, 0, 3]);
        client.option(STRUCTURED, b"");
        assert_eq!(client.answer(), (STRUCTURED, ACK, vec![]));
        client.is_structured = true;
        client.option(GO, b"\0\0\0\x03log\0\0");
        while client.answer().1 != ACK {}
        client
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub(crate) fn bytes(&mut self, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Whether the server disconnects without sending anything.
    pub(crate) fn is_hung_up_on(&mut self) -> bool {
        let received = self.stream.read(&mut [0; 1]);
        match received {
            Ok(size) => size == 0,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    /// Stops sending, but still receives.
    pub(crate) fn fall_silent(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    pub(crate) fn option(&mut self, option: u32, data: &[u8]) {
        let length = u32::try_from(data.len()).unwrap();
        let head = [&b"IHAVEOPT"[..], &option.to_be_bytes(), &length.to_be_bytes()].concat();
        self.send(&[&head, data].concat());
    }

    /// Requests the list of exports; false once the server has disconnected.
    pub(crate) fn ask_for_the_list(&mut self) -> bool {
        let asked = self.stream.write_all(b"IHAVEOPT\0\0\0\x03\0\0\0\0").is_ok();
        asked && self.stream.read_exact(&mut [0; 47]).is_ok()
    }

    /// Receives an option reply: the option, the kind of reply, and its data.
    pub(crate) fn answer(&mut self) -> (u32, u32, Vec<u8>) {
        assert_eq!(self.u64(), 0x0003_e889_0455_65a9);
        let (option, kind, length) = (self.u32(), self.u32(), self.u32());
        (option, kind, self.bytes(length.try_into().unwrap()))
    }

    /// Sends a request without waiting for its reply.
    pub(crate) fn request(&mut self, (flags, command): (u16, u16), offset: u64, length: u32) {
        let head = request((flags, command), self.handle + 1, offset, length);
        self.handle += 1;
        self.send(&head);
    }

    /// Receives a simple reply without data and returns its error.
    pub(crate) fn reply(&mut self) -> u32 {
        assert_eq!(self.u32(), 0x6744_6698);
        let error = self.u32();
        assert_eq!(self.u64(), self.handle);
        error
    }

    /// Receives a chunk of a structured reply: flags, kind and data.
    pub(crate) fn chunk(&mut self) -> (u16, u16, Vec<u8>) {
        assert_eq!(self.u32(), 0x668e_33ef);
        let (flags, kind) = (self.u16(), self.u16());
        assert_eq!(self.u64(), self.handle);
        let length = self.u32();
        (flags, kind, self.bytes(length.try_into().unwrap()))
    }

    /// Sends a request without payload, waits for its reply without data, and returns the error.
    pub(crate) fn act(&mut self, what: (u16, u16), offset: u64, length: u32) -> u32 {
        self.request(what, offset, length);
        self.reply()
    }

    pub(crate) fn write(&mut self, flags: u16, offset: u64, bytes: &[u8]) -> u32 {
        self.request((flags, WRITE), offset, bytes.len().try_into().unwrap());
        self.send(bytes);
        self.reply()
    }

    pub(crate) fn read(&mut self, offset: u64, length: u32) -> Result<Vec<u8>, u32> {
        self.request((0, READ), offset, length);
        let size = usize::try_from(length).unwrap();
        if !self.is_structured {
            return match self.reply() {
                0 => Ok(self.bytes(size)),
                error => Err(error),
            };
        }
        let mut bytes = Vec::new();
        loop {
            let (flags, kind, data) = self.chunk();
            match kind {
                0 => assert_eq!(data, b""),
                1 => {
                    let (at, data) = data.split_first_chunk().unwrap();
                    assert_eq!(u64::from_be_bytes(*at), offset + bytes.len() as u64);
                    bytes.extend_from_slice(data);
                }
                0x8001 => {
                    let (error, rest) = data.split_first_chunk().unwrap();
                    assert_eq!((flags, rest), (1, &[0, 0][..]));
                    return Err(u32::from_be_bytes(*error));
                }
                _ => panic!("nobody asked for chunks of kind {kind}"),
            }
            if flags == 1 {
                assert_eq!(bytes.len(), size);
                return Ok(bytes);
            }
        }
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.bytes(2).try_into().unwrap())
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.bytes(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.bytes(8).try_into().unwrap())
    }
}

pub(crate) fn request(
    (flags, command): (u16, u16),
    handle: u64,
    offset: u64,
    length: u32,
) -> Vec<u8> {
    let mut head = 0x2560_9513_u32.to_be_bytes().to_vec();
    head.extend_from_slice(&flags.to_be_bytes());
    head.extend_from_slice(&command.to_be_bytes());
    head.extend_from_slice(&handle.to_be_bytes());
    head.extend_from_slice(&offset.to_be_bytes());
    head.extend_from_slice(&length.to_be_bytes());
    head
}
