// SPDX-License-Identifier: Apache-2.0

// Prints the pieces of a job's answer as they come, a line each.   stream [ENDPOINT [SERVICE [BODY]]]
package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"time"
)

type stream struct {
	endpoint, service, body, id string
	client                      *socket
	taken                       int64 // how many pieces have come, which is the number of the next one
}

// reconnect makes a new connection, and asks by it for the pieces that have not come yet.
func (s *stream) reconnect() {
	if s.client != nil {
		s.client.close()
	}
	s.client = connect(dealer, s.endpoint, 0)
	if s.taken > 0 {
		s.fetch()
	} else {
		s.client.say("submit", values{"id": s.id, "service": s.service, "stream": true}, []byte(s.body))
	}
}

func (s *stream) fetch() {
	s.client.say("fetch", values{"id": s.id, "from_seq": s.taken, "wait_ms": 1000})
}

func (s *stream) hear(op string, said fields, body []byte) {
	switch {
	case op == "chunk" && said.Seq == s.taken:
		fmt.Printf("%s\n", body)
		s.client.say("seen", values{"id": s.id, "seq": s.taken})
		s.taken++
	case op == "chunk" && said.Seq < s.taken: // it came before
	case op == "status": // nothing new for a second; the job goes on
		s.fetch()
	case op == "chunk", op == "result" && said.Chunks > s.taken, op == "error" && said.Code == "slow_reader":
		s.reconnect() // this client was too slow for what is missing
	case op == "result":
		if len(body) > 0 {
			fmt.Printf("%s\n", body)
		}
		os.Exit(0)
	case op == "error":
		fmt.Fprintf(os.Stderr, "%s: %s\n", said.Code, said.Message)
		os.Exit(1)
	}
}

func main() {
	arguments := []string{"tcp://127.0.0.1:5570", "words", "one two three"}
	copy(arguments, os.Args[1:])
	var id [16]byte
	rand.Read(id[:])
	s := stream{endpoint: arguments[0], service: arguments[1], body: arguments[2], id: fmt.Sprintf("%x", id)}
	s.reconnect()
	for silences, waited := 0, 0; silences < 20; { // seconds without any word; without one about the job
		if op, said, body, ok := s.client.hear(time.Second); ok {
			silences = 0
			if op != "pong" {
				waited = 0
			}
			s.hear(op, said, body)
			continue
		}
		silences++
		waited++
		if silences%2 == 0 || waited%8 == 0 {
			s.reconnect()
		} else {
			s.client.say("ping", values{}) // the job may take long: is the broker there?
		}
	}
	fmt.Fprintln(os.Stderr, "no answer")
	os.Exit(3)
}
