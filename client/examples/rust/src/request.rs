// SPDX-License-Identifier: Apache-2.0
//! Has one job done and prints its answer.   request [ENDPOINT [SERVICE [BODY]]]
mod lmq1;

use std::io::{self, Read, Write};
use std::process::exit;

use lmq1::{Said, Socket, Value};

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |default: &str| arguments.next().unwrap_or_else(|| default.to_string());
    let (endpoint, service, text) = (argument("tcp://127.0.0.1:5570"), argument("echo"), argument("hello"));
    let mut random = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    let id = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let submit = Said::from([("service", Value::Text(service)), ("id", Value::Text(id))]);
    let context = zmq::Context::new();
    for _attempt in 0..10 {
        let client = Socket::connect(&context, zmq::REQ, &endpoint, 0)?;
        client.say("submit", &submit, Some(text.as_bytes()));
        if let Some((op, fields, body)) = client.hear(2000) {
            if op == "error" {
                eprintln!("{}", fields.error());
                exit(1);
            }
            io::stdout().write_all(&body)?;
            println!();
            return Ok(());
        }
        // Silence: ask again by a new socket. The id is the same, so the work is not done twice.
        eprintln!("no answer yet");
    }
    eprintln!("no answer");
    exit(3);
}
