// SPDX-License-Identifier: Apache-2.0

// Has one job done and prints its answer.   request [ENDPOINT [SERVICE [BODY]]]
package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"time"
)

func main() {
	arguments := []string{"tcp://127.0.0.1:5570", "echo", "hello"}
	copy(arguments, os.Args[1:])
	var id [16]byte
	rand.Read(id[:])
	for attempt := 0; attempt < 10; attempt++ {
		client := connect(request, arguments[0], 0)
		client.say("submit", values{"service": arguments[1], "id": fmt.Sprintf("%x", id)}, []byte(arguments[2]))
		if op, said, body, ok := client.hear(2 * time.Second); ok {
			if op == "error" {
				fmt.Fprintf(os.Stderr, "%s: %s\n", said.Code, said.Message)
				os.Exit(1)
			}
			fmt.Printf("%s\n", body)
			return
		}
		client.close() // Silence: ask again by a new socket. The id is the same, so the work is not done twice.
		fmt.Fprintln(os.Stderr, "no answer yet")
	}
	fmt.Fprintln(os.Stderr, "no answer")
	os.Exit(3)
}
