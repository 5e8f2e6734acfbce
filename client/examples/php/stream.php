<?php
// SPDX-License-Identifier: Apache-2.0
// Prints the pieces of a job's answer as they come, a line each.   stream.php [ENDPOINT [SERVICE [BODY]]]
declare(strict_types=1);

ini_set('msgpack.php_only', '0'); // else an empty map is read as an object

final class Stream
{
    private ZMQContext $context;
    private ?ZMQSocket $client = null;
    private string $id;
    private int $taken = 0; // how many pieces have come, which is the number of the next one

    public function __construct(private string $endpoint, private string $service, private string $text)
    {
        $this->context = new ZMQContext();
        $this->id = bin2hex(random_bytes(16));
    }

    public function run(): int
    {
        $this->connect();
        $silences = $waited = 0; // seconds without any word; without one about the job
        while ($silences < 20) {
            if ($frames = $this->client->recvMulti()) {
                $silences = 0;
                $header = @msgpack_unpack($frames[0]);
                if (!is_array($header)) {
                    continue; // what a later version may say
                }
                [, $op, $fields] = $header;
                $waited = $op === 'pong' ? $waited : 0;
                $end = $this->hear($op, $fields, $header[3] ?? $frames[1] ?? '');
                if ($end !== null) {
                    return $end;
                }
            } else {
                ++$silences;
                ++$waited;
                // The job may take long: is the broker there?
                $silences % 2 === 0 || $waited % 8 === 0 ? $this->connect() : $this->say('ping', []);
            }
        }
        fwrite(STDERR, "no answer\n");
        return 3;
    }

    /** The exit code, where it is over. */
    private function hear(string $op, array $fields, string $body): ?int
    {
        if ($op === 'chunk' && $fields['seq'] === $this->taken) {
            echo $body, "\n";
            $this->say('seen', ['seq' => $this->taken++]);
        } elseif ($op === 'chunk' && $fields['seq'] > $this->taken) {
            $this->connect(); // this client was too slow for what is missing
        } elseif ($op === 'status') {
            $this->fetch(); // nothing new for a second; the job goes on
        } elseif ($op === 'result' && ($fields['chunks'] ?? 0) > $this->taken) {
            $this->connect();
        } elseif ($op === 'error' && $fields['code'] === 'slow_reader') {
            $this->connect();
        } elseif ($op === 'result') {
            echo $body === '' ? '' : "$body\n";
            return 0;
        } elseif ($op === 'error') {
            fwrite(STDERR, "{$fields['code']}: " . ($fields['message'] ?? '') . "\n");
            return 1;
        }
        return null;
    }

    /** Makes a new connection, and asks by it for the pieces that have not come yet. */
    private function connect(): void
    {
        $this->client = null;
        $this->client = new ZMQSocket($this->context, ZMQ::SOCKET_DEALER);
        $this->client->setSockOpt(ZMQ::SOCKOPT_LINGER, 0);
        $this->client->setSockOpt(ZMQ::SOCKOPT_RCVTIMEO, 1000);
        if ($key = getenv('LANEMQ_BROKER_KEY')) {
            $this->client->setSockOpt(ZMQ::SOCKOPT_CURVE_SERVERKEY, $key);
            $this->client->setSockOpt(ZMQ::SOCKOPT_CURVE_PUBLICKEY, getenv('LANEMQ_PUBLIC_KEY'));
            $this->client->setSockOpt(ZMQ::SOCKOPT_CURVE_SECRETKEY, getenv('LANEMQ_SECRET_KEY'));
        }
        $this->client->connect($this->endpoint);
        if ($this->taken > 0) {
            $this->fetch();
        } else {
            $this->say('submit', ['service' => $this->service, 'stream' => true], $this->text);
        }
    }

    private function fetch(): void
    {
        $this->say('fetch', ['from_seq' => $this->taken, 'wait_ms' => 1000]);
    }

    /** A body has a frame of its own: strings are never msgpack's bin here. */
    private function say(string $op, array $fields, string ...$body): void
    {
        $this->client->sendMulti([msgpack_pack(['LMQ1', $op, ['id' => $this->id] + $fields]), ...$body]);
    }
}

[, $endpoint, $service, $text] = $argv + ['', 'tcp://127.0.0.1:5570', 'words', 'one two three'];
exit((new Stream($endpoint, $service, $text))->run());
