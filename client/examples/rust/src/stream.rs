// SPDX-License-Identifier: Apache-2.0
//! Prints the pieces of a job's answer as they come, a line each.   stream [ENDPOINT [SERVICE [BODY]]]
mod lmq1;

use std::io::{self, Read, Write};
use std::process::exit;

use lmq1::{Fields, Said, Socket, Value};

struct Stream {
    context: zmq::Context,
    endpoint: String,
    service: String,
    text: String,
    id: String,
    /// How many pieces have come, which is the number of the next one.
    taken: u64,
}

impl Stream {
    /// Makes a new connection, and asks by it for the pieces that have not come yet.
    fn connect(&self) -> io::Result<Socket> {
        let client = Socket::connect(&self.context, zmq::DEALER, &self.endpoint, 0)?;
        if self.taken > 0 {
            self.fetch(&client);
        } else {
            let submit = [("service", Value::Text(self.service.clone())), ("stream", Value::Flag(true))];
            client.say("submit", &self.of(submit), Some(self.text.as_bytes()));
        }
        Ok(client)
    }

    fn fetch(&self, client: &Socket) {
        client.say("fetch", &self.of([("from_seq", Value::Number(self.taken)), ("wait_ms", Value::Number(1000))]), None);
    }

    /// Names the job in what is said of it.
    fn of<const N: usize>(&self, fields: [(&'static str, Value); N]) -> Said {
        let mut said = Said::from(fields);
        said.insert("id", Value::Text(self.id.clone()));
        said
    }

    /// Whether this connection is of use any more.
    fn hear(&mut self, client: &Socket, op: &str, fields: Fields, body: &[u8]) -> bool {
        match op {
            "chunk" if fields.seq == Some(self.taken) => {
                print_line(body);
                client.say("seen", &self.of([("seq", Value::Number(self.taken))]), None);
                self.taken += 1;
            }
            "chunk" => return fields.seq < Some(self.taken), // behind a gap: this client was too slow for what is missing
            "status" => self.fetch(client),                  // nothing new for a second; the job goes on
            "result" if fields.chunks > Some(self.taken) => return false,
            "error" if fields.has_code("slow_reader") => return false,
            "result" => {
                if !body.is_empty() {
                    print_line(body);
                }
                exit(0);
            }
            "error" => {
                eprintln!("{}", fields.error());
                exit(1);
            }
            _ => {}
        }
        true
    }
}

fn print_line(line: &[u8]) {
    let mut out = io::stdout();
    if out.write_all(line).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()).is_err() {
        exit(1); // nobody reads
    }
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |default: &str| arguments.next().unwrap_or_else(|| default.to_string());
    let (endpoint, service, text) = (argument("tcp://127.0.0.1:5570"), argument("words"), argument("one two three"));
    let mut random = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    let id = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut stream = Stream { context: zmq::Context::new(), endpoint, service, text, id, taken: 0 };
    let mut client = stream.connect()?;
    let (mut silences, mut waited) = (0, 0); // seconds without any word; without one about the job
    while silences < 20 {
        let of_use = match client.hear(1000) {
            Some((op, fields, body)) => {
                silences = 0;
                waited = if op == "pong" { waited } else { 0 };
                stream.hear(&client, &op, fields, &body)
            }
            None => {
                silences += 1;
                waited += 1;
                client.say("ping", &Said::new(), None); // the job may take long: is the broker there?
                silences % 2 != 0 && waited % 8 != 0
            }
        };
        if !of_use {
            drop(client);
            client = stream.connect()?;
        }
    }
    eprintln!("no answer");
    exit(3);
}
