// SPDX-License-Identifier: Apache-2.0
//! Serves `echo` and `words` until TERM or Ctrl-C.   worker [ENDPOINT]
mod lmq1;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lmq1::{Fields, Said, Socket, Value};

static TERMINATED: AtomicBool = AtomicBool::new(false);

extern "C" fn terminate(_signal: libc::c_int) {
    TERMINATED.store(true, Ordering::Relaxed);
}

/// A job and an attempt.
type Lease = (u64, u64);

/// What is held until the broker has answered its outcome.
struct Job {
    pieces: Vec<Vec<u8>>,
    sent: usize,
    /// Pieces that a reader has taken, as far as known.
    taken: usize,
    outcome: (&'static str, Said, Vec<u8>),
}

impl Job {
    fn goes_on(&self) -> bool {
        self.sent < self.pieces.len()
    }

    fn window_has_room(&self) -> bool {
        let under_way = &self.pieces[self.taken..self.sent];
        under_way.len() < 64 && under_way.iter().map(Vec::len).sum::<usize>() < 262144
    }

    /// Says the pieces that the window has room for, and behind the last one the outcome.
    fn go_on(&mut self, lease: Lease, socket: &Socket) {
        while self.goes_on() {
            if !self.window_has_room() {
                return;
            }
            let seq = Said::from([("seq", Value::Number(self.sent as u64))]);
            socket.say("chunk", &named(lease, seq), Some(&self.pieces[self.sent]));
            self.sent += 1;
        }
        let (op, fields, body) = &self.outcome;
        socket.say(op, &named(lease, fields.clone()), Some(body));
    }
}

fn named(lease: Lease, mut fields: Said) -> Said {
    fields.insert("job", Value::Number(lease.0));
    fields.insert("attempt", Value::Number(lease.1));
    fields
}

fn text(words: &str) -> Value {
    Value::Text(words.to_string())
}

struct Worker {
    context: zmq::Context,
    endpoint: String,
    socket: Socket,
    ready: Said,
    jobs: BTreeMap<Lease, Job>,
    interval: Duration,
    heard: Instant,
    due: Instant,
    introduced: Instant,
    /// Whether `ready` was answered.
    welcomed: bool,
    /// By an operator.
    drained: bool,
}

impl Worker {
    fn new(endpoint: String) -> zmq::Result<Worker> {
        let context = zmq::Context::new();
        let socket = Socket::connect(&context, zmq::DEALER, &endpoint, 1000)?;
        let services = Value::Texts(vec!["echo".to_string(), "words".to_string()]);
        let ready = Said::from([("services", services), ("capacity", Value::Number(4)), ("resumes", Value::Flag(true))]);
        let now = Instant::now();
        let interval = Duration::from_millis(800); // until `welcome` says another
        let jobs = BTreeMap::new();
        let (heard, due, introduced, welcomed, drained) = (now, now, now, false, false);
        Ok(Worker { context, endpoint, socket, ready, jobs, interval, heard, due, introduced, welcomed, drained })
    }

    fn run(mut self) -> zmq::Result<()> {
        self.introduce();
        while !self.jobs.is_empty() || !TERMINATED.load(Ordering::Relaxed) {
            let wait = self.due.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            if let Some((op, fields, body)) = self.socket.hear(wait.as_millis() as i64) {
                self.heard = Instant::now();
                self.hear(&op, fields, body)?;
            }
            if self.heard.elapsed() > 3 * self.interval {
                eprintln!("the broker is silent");
                self.reconnect()?;
            } else if Instant::now() >= self.due {
                if self.welcomed {
                    self.beat();
                } else {
                    self.introduce();
                }
            }
        }
        self.socket.say("bye", &Said::new(), None);
        Ok(())
    }

    fn reconnect(&mut self) -> zmq::Result<()> {
        self.socket = Socket::connect(&self.context, zmq::DEALER, &self.endpoint, 1000)?;
        self.heard = Instant::now();
        self.introduce();
        Ok(())
    }

    /// What a broker hears first, and again when it does not know this worker: who it is, and all that it holds.
    fn introduce(&mut self) {
        self.introduced = Instant::now();
        self.welcomed = false;
        self.socket.say("ready", &self.ready, None);
        self.beat();
        for (lease, job) in &mut self.jobs {
            job.sent = job.taken;
            job.go_on(*lease, &self.socket);
        }
    }

    fn beat(&mut self) {
        let held = Value::Leases(self.jobs.keys().copied().collect());
        self.socket.say("heartbeat", &Said::from([("jobs", held)]), None);
        self.due = Instant::now() + self.interval;
    }

    fn hear(&mut self, op: &str, fields: Fields, body: Vec<u8>) -> zmq::Result<()> {
        let lease = (fields.job.unwrap_or(0), fields.attempt.unwrap_or(0));
        match op {
            "welcome" => {
                self.interval = Duration::from_millis(fields.heartbeat_ms.unwrap_or(1000));
                self.welcomed = true;
                self.drained = false;
                if let Some(session) = fields.session {
                    self.ready.insert("session", Value::Text(session));
                }
                self.beat();
            }
            "drain" => self.drained = true,
            "bye" => self.reconnect()?,
            "job" if !self.jobs.contains_key(&lease) => {
                self.jobs.retain(|held, _| held.0 != lease.0); // an older attempt, which is over
                let mut job = taken(&fields, body, self.drained);
                job.go_on(lease, &self.socket);
                self.jobs.insert(lease, job);
            }
            "window" | "cancel" => {
                if let Some(job) = self.jobs.get_mut(&lease) {
                    tell(job, op, &fields, lease, &self.socket);
                }
            }
            "acked" => {
                for acked in fields.jobs.unwrap_or_default() {
                    self.jobs.remove(&acked);
                }
            }
            "error" => self.hear_error(&fields, lease),
            _ => {}
        }
        Ok(())
    }

    fn hear_error(&mut self, fields: &Fields, lease: Lease) {
        if fields.has_code("stale") {
            self.jobs.remove(&lease);
        } else if !fields.has_code("unknown_session") {
            eprintln!("{}", fields.error());
        } else if self.welcomed || self.introduced.elapsed() > self.interval {
            self.introduce(); // else the answer to `ready` is on its way
        }
    }
}

/// A job as it comes.
fn taken(fields: &Fields, body: Vec<u8>, drained: bool) -> Job {
    let mut job = Job { pieces: Vec::new(), sent: 0, taken: 0, outcome: ("result", Said::new(), Vec::new()) };
    if drained || TERMINATED.load(Ordering::Relaxed) {
        job.outcome = ("error", Said::from([("class", text("released"))]), Vec::new());
    } else if fields.stream == Some(true) && fields.service.as_deref() == Some("words") {
        let words = body.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        job.pieces = words.map(<[u8]>::to_vec).collect();
    } else if fields.stream == Some(true) {
        job.pieces = body.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    } else {
        job.outcome.2 = body;
    }
    job
}

/// What the broker says of a job that is held: `window` or `cancel`.
fn tell(job: &mut Job, op: &str, fields: &Fields, lease: Lease, socket: &Socket) {
    let went_on = job.goes_on();
    if op == "window" {
        job.taken = job.taken.max(fields.seq.map_or(0, |seq| seq as usize + 1));
    } else if went_on {
        job.pieces.truncate(job.sent);
        job.outcome = ("error", Said::from([("class", text("retry")), ("code", text("cancelled"))]), Vec::new());
    }
    if went_on {
        job.go_on(lease, socket); // else its outcome is on the way
    }
}

fn main() -> zmq::Result<()> {
    // SAFETY: the handler only stores a flag. A second signal ends the program at once.
    unsafe {
        let mut once: libc::sigaction = std::mem::zeroed();
        once.sa_sigaction = terminate as usize;
        once.sa_flags = libc::SA_RESETHAND;
        libc::sigaction(libc::SIGTERM, &once, std::ptr::null_mut());
        libc::sigaction(libc::SIGINT, &once, std::ptr::null_mut());
    }
    let endpoint = std::env::args().nth(1).unwrap_or_else(|| "tcp://127.0.0.1:5571".to_string());
    Worker::new(endpoint)?.run()
}
