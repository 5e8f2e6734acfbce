// SPDX-License-Identifier: Apache-2.0

package main

/*
#cgo LDFLAGS: -lzmq
#include <stdlib.h>
#include <zmq.h>
*/
import "C"

import (
	"os"
	"syscall"
	"time"
	"unsafe"

	"github.com/vmihailenco/msgpack/v5"
)

const (
	request = C.ZMQ_REQ
	dealer  = C.ZMQ_DEALER
)

// fields are those that these programs read. Others are ignored, and one that is nil is absent.
type fields struct {
	Job         uint64      `msgpack:"job"`
	Attempt     uint64      `msgpack:"attempt"`
	Service     string      `msgpack:"service"`
	Stream      bool        `msgpack:"stream"`
	Seq         int64       `msgpack:"seq"`
	Chunks      int64       `msgpack:"chunks"`
	Code        string      `msgpack:"code"`
	Message     string      `msgpack:"message"`
	Session     string      `msgpack:"session"`
	HeartbeatMs int64       `msgpack:"heartbeat_ms"`
	Jobs        [][2]uint64 `msgpack:"jobs"`
}

type values map[string]interface{}

// socket is one of ZeroMQ's that says and hears LMQ1.
type socket struct{ handle unsafe.Pointer }

var context = C.zmq_ctx_new()

func connect(kind C.int, endpoint string, linger time.Duration) *socket {
	s := &socket{C.zmq_socket(context, kind)}
	s.setNumber(C.ZMQ_LINGER, linger)
	if key := os.Getenv("LANEMQ_BROKER_KEY"); key != "" {
		s.setText(C.ZMQ_CURVE_SERVERKEY, key)
		s.setText(C.ZMQ_CURVE_PUBLICKEY, os.Getenv("LANEMQ_PUBLIC_KEY"))
		s.setText(C.ZMQ_CURVE_SECRETKEY, os.Getenv("LANEMQ_SECRET_KEY"))
	}
	text := C.CString(endpoint)
	defer C.free(unsafe.Pointer(text))
	C.zmq_connect(s.handle, text)
	return s
}

func (s *socket) setNumber(option C.int, wait time.Duration) {
	number := C.int(wait.Milliseconds())
	C.zmq_setsockopt(s.handle, option, unsafe.Pointer(&number), C.sizeof_int)
}

func (s *socket) setText(option C.int, value string) {
	text := C.CString(value)
	defer C.free(unsafe.Pointer(text))
	C.zmq_setsockopt(s.handle, option, unsafe.Pointer(text), C.size_t(len(value)+1))
}

func (s *socket) say(op string, what values, body ...[]byte) {
	message := []interface{}{"LMQ1", op, what}
	for _, part := range body {
		message = append(message, append([]byte{}, part...)) // never nil, which is no body
	}
	frame, err := msgpack.Marshal(message)
	if err != nil {
		panic(err)
	}
	C.zmq_send(s.handle, unsafe.Pointer(&frame[0]), C.size_t(len(frame)), 0)
}

// hear returns the next message, or false when there was none for so long.
func (s *socket) hear(wait time.Duration) (op string, said fields, body []byte, ok bool) {
	s.setNumber(C.ZMQ_RCVTIMEO, wait)
	frames, ok := s.receive()
	if !ok {
		return
	}
	var header []msgpack.RawMessage
	if msgpack.Unmarshal(frames[0], &header) != nil || len(header) < 3 {
		return // a sign of life that a later version may understand
	}
	msgpack.Unmarshal(header[1], &op)
	msgpack.Unmarshal(header[2], &said)
	if len(header) > 3 {
		msgpack.Unmarshal(header[3], &body)
	} else if len(frames) > 1 {
		body = frames[1]
	}
	return
}

func (s *socket) receive() (frames [][]byte, ok bool) {
	var frame C.zmq_msg_t
	C.zmq_msg_init(&frame)
	defer C.zmq_msg_close(&frame)
	for {
		if size, err := C.zmq_msg_recv(&frame, s.handle, 0); size < 0 {
			if err == syscall.EINTR { // Go's own signals
				continue
			}
			return nil, false
		}
		frames = append(frames, C.GoBytes(C.zmq_msg_data(&frame), C.int(C.zmq_msg_size(&frame))))
		if C.zmq_msg_more(&frame) == 0 {
			return frames, true
		}
	}
}

// close drops the socket; end also waits for what has to leave yet.
func (s *socket) close() { C.zmq_close(s.handle) }

func (s *socket) end() {
	s.close()
	C.zmq_ctx_term(context)
}
