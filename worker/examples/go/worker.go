// SPDX-License-Identifier: Apache-2.0

// Serves `echo` and `words` until TERM or Ctrl-C.   worker [ENDPOINT]
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

type lease struct{ job, attempt uint64 }

// job is held until the broker has answered its outcome.
type job struct {
	lease
	pieces      [][]byte
	sent, taken int // pieces that were said, and that a reader has taken as far as known
	op          string
	outcome     values
	body        []byte
}

func (j *job) goesOn() bool { return j.sent < len(j.pieces) }

func (j *job) windowHasRoom() bool {
	underWay := j.pieces[j.taken:j.sent]
	return len(underWay) < 64 && len(bytes.Join(underWay, nil)) < 262144
}

// of names the job in what is said of it.
func (j *job) of(what values) values {
	named := values{"job": j.job, "attempt": j.attempt}
	for name, value := range what {
		named[name] = value
	}
	return named
}

type worker struct {
	endpoint               string
	socket                 *socket
	ready                  values
	jobs                   map[lease]*job
	interval               time.Duration
	heard, due, introduced time.Time
	welcomed               bool  // whether `ready` was answered
	terminated             int32 // by a signal
	drained                bool  // by an operator
}

func (w *worker) connect() {
	if w.socket != nil {
		w.socket.close()
	}
	w.socket = connect(dealer, w.endpoint, time.Second)
	w.heard = time.Now()
	w.introduce()
}

// introduce says what a broker hears first, and again when it does not know this worker: who it is, and all that it holds.
func (w *worker) introduce() {
	w.introduced, w.welcomed = time.Now(), false
	w.socket.say("ready", w.ready)
	w.beat()
	for _, job := range w.jobs {
		job.sent = job.taken
		w.goOn(job)
	}
}

func (w *worker) beat() {
	held := [][]uint64{}
	for lease := range w.jobs {
		held = append(held, []uint64{lease.job, lease.attempt})
	}
	w.socket.say("heartbeat", values{"jobs": held})
	w.due = time.Now().Add(w.interval)
}

// goOn says the pieces that the window has room for, and behind the last one the outcome.
func (w *worker) goOn(job *job) {
	for ; job.goesOn(); job.sent++ {
		if !job.windowHasRoom() {
			return
		}
		w.socket.say("chunk", job.of(values{"seq": job.sent}), job.pieces[job.sent])
	}
	w.socket.say(job.op, job.of(job.outcome), job.body)
}

func (w *worker) take(said fields, body []byte) *job {
	taken := &job{lease: lease{said.Job, said.Attempt}, op: "result", body: body}
	if atomic.LoadInt32(&w.terminated) != 0 || w.drained {
		taken.op, taken.outcome, taken.body = "error", values{"class": "released"}, nil
	} else if said.Stream && said.Service == "words" {
		taken.pieces, taken.body = bytes.Fields(body), nil
	} else if said.Stream && len(body) > 0 {
		lines := bytes.SplitAfter(body, []byte("\n"))
		if len(lines[len(lines)-1]) == 0 { // behind the last line's end
			lines = lines[:len(lines)-1]
		}
		taken.pieces, taken.body = lines, nil
	}
	return taken
}

func (w *worker) hear(op string, said fields, body []byte) {
	about := lease{said.Job, said.Attempt}
	job := w.jobs[about]
	switch {
	case op == "welcome":
		w.interval, w.welcomed, w.drained = time.Duration(said.HeartbeatMs)*time.Millisecond, true, false
		if said.Session != "" {
			w.ready["session"] = said.Session
		}
		w.beat()
	case op == "drain":
		w.drained = true
	case op == "bye":
		w.connect()
	case op == "job" && job == nil:
		for held := range w.jobs {
			if held.job == about.job { // an older attempt, which is over
				delete(w.jobs, held)
			}
		}
		w.jobs[about] = w.take(said, body)
		w.goOn(w.jobs[about])
	case op == "window" && job != nil:
		goesOn := job.goesOn()
		if taken := int(said.Seq) + 1; taken > job.taken {
			job.taken = taken
		}
		if goesOn {
			w.goOn(job)
		}
	case op == "cancel" && job != nil && job.goesOn():
		job.pieces = job.pieces[:job.sent]
		job.op, job.outcome, job.body = "error", values{"class": "retry", "code": "cancelled"}, nil
		w.goOn(job)
	case op == "acked":
		for _, pair := range said.Jobs {
			delete(w.jobs, lease{pair[0], pair[1]})
		}
	case op == "error" && said.Code == "stale":
		delete(w.jobs, about)
	case op == "error" && said.Code == "unknown_session":
		if w.welcomed || time.Since(w.introduced) > w.interval { // else the answer to `ready` is on its way
			w.introduce()
		}
	case op == "error":
		fmt.Fprintf(os.Stderr, "%s: %s\n", said.Code, said.Message)
	}
}

func (w *worker) endOnSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		atomic.StoreInt32(&w.terminated, 1)
		signal.Reset() // a second one ends it at once
	}()
}

func main() {
	w := &worker{endpoint: "tcp://127.0.0.1:5571", jobs: map[lease]*job{}, interval: 800 * time.Millisecond}
	if len(os.Args) > 1 {
		w.endpoint = os.Args[1]
	}
	w.ready = values{"services": []string{"echo", "words"}, "capacity": 4, "resumes": true}
	w.endOnSignal()
	w.connect()
	for len(w.jobs) > 0 || atomic.LoadInt32(&w.terminated) == 0 {
		wait := time.Until(w.due)
		if wait < 0 {
			wait = 0
		}
		if op, said, body, ok := w.socket.hear(wait); ok {
			w.heard = time.Now()
			w.hear(op, said, body)
		}
		if time.Since(w.heard) > 3*w.interval {
			fmt.Fprintln(os.Stderr, "the broker is silent")
			w.connect()
		} else if time.Now().Before(w.due) {
			continue
		} else if w.welcomed {
			w.beat()
		} else {
			w.introduce()
		}
	}
	w.socket.say("bye", values{})
	w.socket.end()
}
