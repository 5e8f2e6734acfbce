// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lanemq::io {

/// Keeps libzmq from ending this program when a connection breaks whose input libzmq has stopped.
///
/// libzmq stops a connection's input while its queue is full (ZMQ_RCVHWM), or its key is looked up. The
/// system tells of a broken connection then as well; libzmq 4.3.4 notes the break, goes on with the bytes in
/// its buffer as soon as there is room, and aborts where a `PING` of ZeroMQ's is among them ("Assertion
/// failed: !_io_error": it wants to write the `PONG`). Any peer that may send can arrange that.
///
/// So this program has epoll_ctl(2) and epoll_wait(2) of its own, which change for libzmq's threads how the
/// system tells of a break, and nothing for others:
///
/// - To a descriptor that libzmq wants to read it is input, and input alone. Else libzmq would read,
///   stop, and hear of the break after that.
/// - To one that it wants to write alone it is room to write. The write fails, and libzmq goes on.
/// - One of which it wants neither is not watched, for the system tells of a break even so.
///
/// So libzmq finds the break where it reads, and ends the connection as any other, after all its messages.
///
/// Whether libzmq's calls do come here; to be asked once there is a socket. Needed up to libzmq 4.3.4, and
/// harmless with later ones.
bool guards_stopped_inputs();

}  // namespace lanemq::io
