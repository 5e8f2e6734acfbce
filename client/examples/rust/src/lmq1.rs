// SPDX-License-Identifier: Apache-2.0
//! A socket of ZeroMQ's that says and hears LMQ1, for these programs.
use std::collections::BTreeMap;
use std::env;

use serde::{Deserialize, Serialize};
use serde_bytes::{ByteBuf, Bytes};

/// What the fields that are said hold.
#[derive(Clone, Serialize)]
#[serde(untagged)]
#[allow(dead_code)]
pub enum Value {
    Number(u64),
    Flag(bool),
    Text(String),
    Texts(Vec<String>),
    Leases(Vec<(u64, u64)>),
}

pub type Said = BTreeMap<&'static str, Value>;

/// The fields that these programs read. Others are ignored, and one that is nil is absent.
#[derive(Default, Deserialize)]
#[serde(default)]
#[allow(dead_code)]
pub struct Fields {
    pub job: Option<u64>,
    pub attempt: Option<u64>,
    pub service: Option<String>,
    pub stream: Option<bool>,
    pub seq: Option<u64>,
    pub chunks: Option<u64>,
    pub code: Option<String>,
    pub message: Option<String>,
    pub session: Option<String>,
    pub heartbeat_ms: Option<u64>,
    pub jobs: Option<Vec<(u64, u64)>>,
}

impl Fields {
    /// The error as a line for people.
    pub fn error(&self) -> String {
        format!("{}: {}", self.code.as_deref().unwrap_or("internal"), self.message.as_deref().unwrap_or(""))
    }

    #[allow(dead_code)]
    pub fn has_code(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }
}

#[derive(Default, Deserialize)]
struct Header(String, String, Fields, #[serde(default)] Option<ByteBuf>);

pub struct Socket(zmq::Socket);

impl Socket {
    pub fn connect(context: &zmq::Context, kind: zmq::SocketType, endpoint: &str, linger_ms: i32) -> zmq::Result<Socket> {
        let socket = context.socket(kind)?;
        socket.set_linger(linger_ms)?;
        if let Ok(key) = env::var("LANEMQ_BROKER_KEY") {
            let own = |name| env::var(name).unwrap_or_default();
            socket.set_curve_serverkey(key.as_bytes())?;
            socket.set_curve_publickey(own("LANEMQ_PUBLIC_KEY").as_bytes())?;
            socket.set_curve_secretkey(own("LANEMQ_SECRET_KEY").as_bytes())?;
        }
        socket.connect(endpoint)?;
        Ok(Socket(socket))
    }

    pub fn say(&self, op: &str, fields: &Said, body: Option<&[u8]>) {
        let header = match body {
            Some(bytes) => rmp_serde::to_vec(&("LMQ1", op, fields, Bytes::new(bytes))),
            None => rmp_serde::to_vec(&("LMQ1", op, fields)),
        };
        let sent = self.0.send(header.expect("a header can be written"), 0);
        sent.expect("a socket takes what is said");
    }

    /// The op, the fields and the body of the next message, or None when there was none for so long.
    pub fn hear(&self, wait_ms: i64) -> Option<(String, Fields, Vec<u8>)> {
        if self.0.poll(zmq::POLLIN, wait_ms).unwrap_or(0) == 0 {
            return None;
        }
        let mut frames = self.0.recv_multipart(0).ok()?.into_iter();
        // What cannot be read is a sign of life all the same.
        let Header(_, op, fields, inside) = rmp_serde::from_slice(&frames.next()?).unwrap_or_default();
        let body = inside.map(ByteBuf::into_vec).or_else(|| frames.next());
        Some((op, fields, body.unwrap_or_default()))
    }
}
