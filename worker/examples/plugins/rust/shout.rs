// SPDX-License-Identifier: Apache-2.0
//
// A handler in Rust, without a crate: answers each job with its text in capitals; what is no UTF-8 fails.
//
//   rustc --edition 2021 --crate-type cdylib -C panic=abort -o shout.so shout.rs
//   lanemq-worker --service shout=plugin:./shout.so
//
// The structs are those of lanemq/handler_plugin.h, as far as this handler needs them: of structs that the worker makes
// the first members are enough, those that the plugin makes are whole.
use std::ffi::c_void;
use std::os::raw::c_char;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bytes {
    data: *const c_char,
    size: usize,
}

impl Bytes {
    const NONE: Bytes = Bytes { data: std::ptr::null(), size: 0 };
    fn of(text: &str) -> Bytes {
        Bytes { data: text.as_ptr() as *const c_char, size: text.len() }
    }
    unsafe fn get<'a>(self) -> &'a [u8] {
        if self.size == 0 { &[] } else { std::slice::from_raw_parts(self.data as *const u8, self.size) }
    }
}

#[repr(C)]
pub struct Lease {
    job: u64,
    attempt: i64,
}

#[repr(C)]
pub struct Job {
    size: usize,
    lease: Lease,
    service: Bytes,
    id: Bytes,
    lane: Bytes,
    model: Bytes,
    client: Bytes,
    key: Bytes,
    body: Bytes,
}

const PERMANENT: i32 = 4;

#[repr(C)]
pub struct Failure {
    size: usize,
    error_class: i32,
    code: Bytes,
    message: Bytes,
    detail: Bytes,
    body: Bytes,
    retry_after_ms: i64,
    upstream_status: i32,
    usage: *const c_void,
    limits: *const c_void,
}

#[repr(C)]
pub struct Host {
    version: u32,
    size: usize,
    chunk: extern "C" fn(*const Host, u64, *const c_char, usize) -> bool,
    success: extern "C" fn(*const Host, u64, *const c_char, usize, *const c_void, *const c_void),
    failure: extern "C" fn(*const Host, u64, *const Failure),
}

#[repr(C)]
pub struct Plugin {
    version: u32,
    size: usize,
    name: *const c_char,
    create: extern "C" fn(*const Host, *const c_void, *mut c_char, usize) -> *mut c_void,
    destroy: extern "C" fn(*mut c_void),
    start: unsafe extern "C" fn(*mut c_void, *const Job, u64),
    // What lies behind `size` does not exist: cancel, resume, descriptor, ...
}
unsafe impl Sync for Plugin {}

struct Shout {
    host: *const Host,
}

extern "C" fn create(host: *const Host, _: *const c_void, _: *mut c_char, _: usize) -> *mut c_void {
    Box::into_raw(Box::new(Shout { host })) as *mut c_void
}

extern "C" fn destroy(handler: *mut c_void) {
    drop(unsafe { Box::from_raw(handler as *mut Shout) });
}

unsafe extern "C" fn start(handler: *mut c_void, job: *const Job, done: u64) {
    let host = (*(handler as *const Shout)).host;
    match std::str::from_utf8((*job).body.get()) {
        Ok(text) => {
            let answer = text.to_uppercase();
            let none = std::ptr::null();
            ((*host).success)(host, done, answer.as_ptr() as *const c_char, answer.len(), none, none);
        }
        Err(_) => {
            let failure = Failure {
                size: std::mem::size_of::<Failure>(),
                error_class: PERMANENT,
                code: Bytes::of("bad_text"),
                message: Bytes::of("the body is no UTF-8"),
                detail: Bytes::NONE,
                body: Bytes::NONE,
                retry_after_ms: -1,
                upstream_status: 0,
                usage: std::ptr::null(),
                limits: std::ptr::null(),
            };
            ((*host).failure)(host, done, &failure);
        }
    }
}

static PLUGIN: Plugin = Plugin {
    version: 1,
    size: std::mem::size_of::<Plugin>(),
    name: b"shout\0".as_ptr() as *const c_char,
    create,
    destroy,
    start,
};

#[no_mangle]
pub extern "C" fn lanemq_get_handler_plugin() -> *const Plugin {
    &PLUGIN
}
