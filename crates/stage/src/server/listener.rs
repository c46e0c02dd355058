//! A server listens to its clients until they are gone; threads write.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use aqueduct_comm::{Comm, Source};

use super::client::share;
use super::desk::{Desk, Held, Pool, Private, State, Writer};
use super::ledger::Item;
use super::lines::{Lines, rows};
use super::protocol::{ANSWER, DATA, Open, REQUEST, Request, Room, tell, told};
use super::split::Server;
use crate::activity::{PATIENCE, await_end};
use crate::declared::Declared;
use crate::error::{Error, Kind, Result, Told, agree};
use crate::group::{Group, Share};
use crate::pin;
use crate::target::{FileTarget, Target};

/// The smallest chunk that is worth a message.
pub(super) const LEAST: u64 = 64;

/// What a server has done.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// How many outputs it has written.
    pub outputs: u64,
    /// How many buffered files.
    pub files: u64,
    /// How many parcels of outputs, and how many bytes.
    pub parcels: u64,
    /// Bytes that this server has written.
    pub bytes: u64,
    /// The most memory that it has held for its clients at a time.
    pub memory_peak: u64,
    /// What it might have held.
    pub memory_cap: u64,
    /// What has failed; the clients know.
    pub failures: Vec<Error>,
}

/// How outputs become targets, on all servers together.
type Make<'a> = &'a dyn Fn(&Comm, &str, &Arc<Declared>) -> Result<Box<dyn Target>>;

impl Server {
    /// Writes stream files for the clients until all of them are gone. Everything they handed over is written first.
    pub fn serve(self) -> Result<Service> {
        self.serve_into(|comm, name, declared| Ok(Box::new(FileTarget::create(comm, name, declared)?)))
    }

    /// As [`serve`](Self::serve), into targets of one's own; called with a communicator of the servers, on each of them, for every output.
    pub fn serve_into(
        self,
        make: impl Fn(&Comm, &str, &Arc<Declared>) -> Result<Box<dyn Target>>,
    ) -> Result<Service> {
        let memory = self.memory.unwrap_or_else(|| half_of_available(&self.link));
        let clients = self.clients();
        let (pool, left) = (Arc::new(Pool::default()), memory);
        let mut listener = Listener {
            server: self,
            make: &make,
            memory,
            left,
            pool,
            openings: vec![None; clients],
            desks: HashMap::new(),
            buffers: vec![None; clients],
            files: HashMap::new(),
            opened: 0,
        };
        match listener.listen() {
            Ok(()) => Ok(listener.close(None)),
            Err(error) => {
                listener.close(Some(&error));
                Err(error)
            }
        }
    }
}

pub(super) struct Listener<'a> {
    pub(super) server: Server,
    make: Make<'a>,
    /// What may be held for all outputs, and what of it is promised to none yet.
    memory: u64,
    pub(super) left: u64,
    pub(super) pool: Arc<Pool>,
    /// What clients want to open, until all of them do.
    openings: Vec<Option<Open>>,
    desks: HashMap<u32, Counter>,
    /// Which files clients want to buffer, until all of them do, and those that are.
    pub(super) buffers: Vec<Option<(String, u64)>>,
    pub(super) files: HashMap<u32, Lines>,
    pub(super) opened: u32,
}

/// An output and the thread that writes it.
struct Counter {
    desk: Arc<Desk>,
    thread: JoinHandle<()>,
    /// Which clients have a row of the symmetric buffers.
    rows: Vec<Option<usize>>,
    /// What of the server's memory is set aside for it.
    budget: u64,
}

impl Listener<'_> {
    fn listen(&mut self) -> Result<()> {
        let mut here = self.server.clients();
        while here > 0 {
            let talk = |error: aqueduct_comm::Error| Error::talk("serve", "the clients", &error);
            let (bytes, status) = self.server.link.receive::<u8>(Source::Any, REQUEST).map_err(talk)?;
            let client = status.source - 1;
            match told(&bytes)? {
                Request::Bye => here -= 1,
                Request::Open(open) => {
                    self.openings[client] = Some(open);
                    if self.openings.iter().all(Option::is_some) {
                        self.open();
                    }
                }
                Request::Parcel(output, parcel, bytes) => {
                    self.hand_in(output, client, Item::Parcel(parcel, bytes.map_err(Told::into_error)));
                }
                Request::Chunk(output, bytes, slot) => self.take_chunk(output, client, bytes, slot)?,
                Request::Buffer(name, piece) => self.want_buffer(client, name, piece),
                Request::Piece(file, runs, bytes, slot) => {
                    self.take_piece(file, client, runs, bytes, slot)?;
                }
                Request::Sync(number) => match self.files.get(&number) {
                    Some(lines) => lines.arrive(client, Item::Sync),
                    None => self.hand_in(number, client, Item::Sync),
                },
                Request::Finish(number, steps) => match self.files.get(&number) {
                    Some(lines) => lines.arrive(client, Item::Finish(steps)),
                    None => self.hand_in(number, client, Item::Finish(steps)),
                },
                Request::Drop(output) => {
                    self.desks.get(&output).into_iter().for_each(|counter| counter.desk.let_go(client));
                }
            }
        }
        Ok(())
    }

    fn hand_in(&self, output: u32, client: usize, item: Item<Held>) {
        if let Some(counter) = self.desks.get(&output) {
            counter.desk.arrive(client, item);
        }
    }

    fn take_chunk(&self, output: u32, client: usize, bytes: u64, slot: Option<u32>) -> Result<()> {
        let row = self.desks.get(&output).and_then(|counter| counter.rows[client]);
        let held = match (bytes, slot, row) {
            (0, ..) | (_, Some(_), None) => Held::Nothing,
            (bytes, Some(slot), Some(row)) => Held::Slot(row, slot, bytes as usize),
            (_, None, _) => {
                let talk = |error: aqueduct_comm::Error| Error::talk("serve", "the clients", &error);
                let (bytes, _) = self.server.link.receive(client + 1, DATA).map_err(talk)?;
                Held::Private(Private::new(bytes, &self.pool))
            }
        };
        self.hand_in(output, client, Item::Chunk(held));
        Ok(())
    }

    /// Opens an output that all clients want. Collective over all servers and clients.
    fn open(&mut self) {
        let opens: Vec<Open> = self.openings.iter_mut().filter_map(Option::take).collect();
        self.reclaim();
        let name = opens[0].name.clone();
        let room = agree(&self.server.servers, "create", &name, self.room(&opens));
        let number = self.opened;
        self.answer(&room.as_ref().map(|(room, _)| (number, *room)).map_err(Error::told));
        let Ok((room, budget)) = room else { return };
        let symmetric = share(&self.server.link, room);
        let desk = symmetric
            .map_err(|error| Error::talk("create", &name, &error))
            .and_then(|symmetric| self.desk(&opens, budget, symmetric.map(|(symmetric, _)| symmetric)));
        let started =
            agree(&self.server.servers, "create", &name, desk).and_then(|desk| self.start(desk, budget));
        let (counter, mine) = started
            .map_or_else(|error| (None, Err(error)), |(counter, persistent)| (Some(counter), Ok(persistent)));
        let outcome = agree(&self.server.servers, "create", &name, mine);
        self.answer(&outcome.as_ref().map_err(Error::told));
        // A number is used once, so that nobody hears of another output.
        self.opened += 1;
        match (outcome, counter) {
            (Ok(_), Some(counter)) => {
                self.desks.insert(number, counter);
                self.left -= budget;
            }
            (Err(error), Some(counter)) => counter.desk.fail(&error),
            (_, None) => {}
        }
    }

    /// What ended outputs and files had is free again.
    pub(super) fn reclaim(&mut self) {
        for counter in self.desks.values_mut().filter(|counter| counter.desk.lock().ended) {
            self.left += std::mem::take(&mut counter.budget);
        }
        self.left += self.files.values_mut().map(Lines::reclaim).sum::<u64>();
    }

    pub(super) fn answer<T: serde::Serialize>(&self, what: &T) {
        for client in 1..self.server.link.size() {
            // One that is gone is noticed by listening.
            let _ = tell(&self.server.link, client, ANSWER, what);
        }
    }

    /// Room for each client of an output, and what of this server's memory is set aside for it: a quarter for two windows, the rest for
    /// chunks that did not fit in symmetric buffers.
    fn room(&self, opens: &[Open]) -> Result<(Room, u64)> {
        let budget = self.left / 4 * 3;
        let allowance = budget / 4 * 3 / opens.len() as u64;
        let least = |of: fn(&Room) -> u64| opens.iter().map(|open| of(&open.room)).min().unwrap_or(0);
        let slot = least(|room| room.slot).min(allowance);
        if slot < LEAST {
            let detail = format!(
                "a server has {budget} bytes left for the output, too few for {} clients; give it more memory",
                opens.len()
            );
            return Err(Error::new(Kind::BadArgument, "create", &opens[0].name, detail));
        }
        Ok((Room { slots: least(|room| u64::from(room.slots)) as u32, slot, allowance }, budget))
    }

    fn desk(
        &self,
        opens: &[Open],
        budget: u64,
        symmetric: Option<super::symmetric::Symmetric>,
    ) -> Result<Desk> {
        let name = &opens[0].name;
        let shares: Vec<Vec<Share>> = opens.iter().map(|open| open.shares.clone()).collect();
        let group = Group::new(&opens[0].streams, &shares);
        let mut group =
            group.map_err(|error| Error::new(Kind::BadArgument, "create", name, error.to_string()))?;
        group.declared.replace = opens[0].replace;
        Ok(Desk {
            name: name.as_str().into(),
            number: self.opened,
            link: self.server.link.clone(),
            symmetric,
            group,
            window: (budget / 8).max(LEAST),
            durable_every: opens[0].durable_every,
            pool: Arc::clone(&self.pool),
            windows: AtomicU64::new(0),
            state: Mutex::new(State::new(opens.len())),
            change: Condvar::new(),
        })
    }

    /// Makes the target and starts its thread; whether the target is persistent. Collective over all servers.
    fn start(&self, desk: Desk, budget: u64) -> Result<(Counter, bool)> {
        let talk = |error: aqueduct_comm::Error| Error::talk("create", &desk.name, &error);
        let (file, meeting) =
            (self.server.servers.dup().map_err(talk)?, self.server.servers.dup().map_err(talk)?);
        let target = (self.make)(&file, &desk.name, &Arc::new(desk.group.declared.clone()))?;
        let persistent = target.is_persistent();
        let rows = rows(&self.server.link);
        let desk = Arc::new(desk);
        let writer = Writer {
            desk: Arc::clone(&desk),
            target: Some(target),
            talk: meeting,
            last: None,
            windows: Default::default(),
        };
        let thread = pin::start("aqueduct server", &self.server.pinned, || writer.run());
        let refuse = |error| {
            Error::new(
                Kind::Unsupported,
                "create",
                &desk.name,
                format!("no thread could be started: {error}"),
            )
        };
        Ok((Counter { thread: thread.map_err(refuse)?, desk, rows, budget }, persistent))
    }

    /// Ends all outputs: those that still hold steps of all clients write them first. Where a client was lost, waits for other ranks have a limit: these may
    /// be gone, too.
    fn close(self, lost: Option<&Error>) -> Service {
        let mut service = Service { memory_cap: self.memory, ..Service::default() };
        for counter in self.desks.into_values() {
            let desk = &counter.desk;
            desk.terminate();
            match lost {
                Some(error) => {
                    let look = |state: &State| (state.ended, state.activity);
                    await_end(&desk.change, desk.lock(), Some(PATIENCE), look);
                    desk.fail(error);
                }
                None => _ = counter.thread.join(),
            }
            let state = desk.lock();
            service.outputs += 1;
            service.parcels += state.parcels;
            service.bytes += state.bytes;
            drop(state);
            service.failures.extend(desk.failure());
        }
        self.files.into_values().for_each(|lines| lines.close(&mut service));
        service.memory_peak = self.pool.peak();
        service
    }
}

/// Half of the available memory, divided by the ranks that share it.
fn half_of_available(link: &Comm) -> u64 {
    4 * crate::options::share_of_available(link)
}
