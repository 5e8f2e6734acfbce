<?php
// SPDX-License-Identifier: Apache-2.0
// Serves `echo` and `words` until TERM or Ctrl-C.   worker.php [ENDPOINT]
declare(strict_types=1);

ini_set('msgpack.php_only', '0'); // else an empty map is read as an object

/** What is held until the broker has answered its outcome. */
final class Job
{
    public int $sent = 0;
    public int $taken = 0; // pieces that a reader has taken, as far as known

    public function __construct(public array $lease, public array $pieces, public array $outcome)
    {
    }

    public function goesOn(): bool
    {
        return $this->sent < count($this->pieces);
    }

    public function windowHasRoom(): bool
    {
        $underWay = array_slice($this->pieces, $this->taken, $this->sent - $this->taken);
        return count($underWay) < 64 && array_sum(array_map('strlen', $underWay)) < 262144;
    }
}

final class Worker
{
    private ZMQContext $context;
    private ?ZMQSocket $socket = null;
    private array $ready = ['services' => ['echo', 'words'], 'capacity' => 4, 'resumes' => true];
    private array $jobs = []; // by "job attempt"
    private float $interval = 0.8; // seconds; until `welcome` says another
    private bool $terminated = false; // by a signal
    private bool $drained = false; // by an operator
    private bool $welcomed = false; // whether `ready` was answered
    private float $heard, $due, $introduced;

    public function __construct(private string $endpoint)
    {
        $this->context = new ZMQContext(1, false); // not persistent: its end waits until `bye` has left
    }

    public function run(): void
    {
        foreach ([SIGTERM, SIGINT] as $signal) {
            pcntl_signal($signal, $this->terminate(...), false);
        }
        $this->connect();
        while ($this->jobs || !$this->terminated) {
            $frames = $this->receive(max(0, $this->due - self::now()));
            pcntl_signal_dispatch();
            if ($frames) {
                $this->heard = self::now();
                $header = @msgpack_unpack($frames[0]);
                if (is_array($header)) { // what cannot be read is a sign of life all the same
                    $this->hear($header[1], $header[2], $header[3] ?? $frames[1] ?? '');
                }
            }
            if (self::now() > $this->heard + 3 * $this->interval) {
                fwrite(STDERR, "the broker is silent\n");
                $this->connect();
            } elseif (self::now() >= $this->due) {
                $this->welcomed ? $this->beat() : $this->introduce();
            }
        }
        $this->socket->send("\x93\xa4LMQ1\xa3bye\x80"); // by hand: an empty array would not become a map
    }

    private static function now(): float
    {
        return hrtime(true) / 1e9;
    }

    private function terminate(int $signal): void
    {
        $this->terminated = true;
        pcntl_signal($signal, SIG_DFL); // a second one ends it at once
    }

    private function receive(float $seconds): array|false
    {
        try {
            $this->socket->setSockOpt(ZMQ::SOCKOPT_RCVTIMEO, (int) ceil(1000 * $seconds));
            return $this->socket->recvMulti();
        } catch (ZMQSocketException $exception) {
            if ($exception->getCode() !== PCNTL_EINTR) {
                throw $exception;
            }
            return false; // a signal
        }
    }

    private function connect(): void
    {
        $this->socket = null;
        $this->socket = new ZMQSocket($this->context, ZMQ::SOCKET_DEALER);
        $this->socket->setSockOpt(ZMQ::SOCKOPT_LINGER, 1000);
        if ($key = getenv('LANEMQ_BROKER_KEY')) {
            $this->socket->setSockOpt(ZMQ::SOCKOPT_CURVE_SERVERKEY, $key);
            $this->socket->setSockOpt(ZMQ::SOCKOPT_CURVE_PUBLICKEY, getenv('LANEMQ_PUBLIC_KEY'));
            $this->socket->setSockOpt(ZMQ::SOCKOPT_CURVE_SECRETKEY, getenv('LANEMQ_SECRET_KEY'));
        }
        $this->socket->connect($this->endpoint);
        $this->heard = self::now();
        $this->introduce();
    }

    /** What a broker hears first, and again when it does not know this worker: who it is, and all that it holds. */
    private function introduce(): void
    {
        $this->introduced = self::now();
        $this->welcomed = false;
        $this->say('ready', $this->ready);
        $this->beat();
        foreach ($this->jobs as $job) {
            $job->sent = $job->taken;
            $this->goOn($job);
        }
    }

    private function beat(): void
    {
        $this->say('heartbeat', ['jobs' => array_map(fn (Job $job) => array_values($job->lease), array_values($this->jobs))]);
        $this->due = self::now() + $this->interval;
    }

    /** Says the pieces that the window has room for, and behind the last one the outcome. */
    private function goOn(Job $job): void
    {
        for (; $job->goesOn(); ++$job->sent) {
            if (!$job->windowHasRoom()) {
                return;
            }
            $this->say('chunk', $job->lease + ['seq' => $job->sent], $job->pieces[$job->sent]);
        }
        [$op, $fields, $body] = $job->outcome;
        $this->say($op, $job->lease + $fields, $body);
    }

    /** A body has a frame of its own: strings are never msgpack's bin here. */
    private function say(string $op, array $fields, string ...$body): void
    {
        $this->socket->sendMulti([msgpack_pack(['LMQ1', $op, $fields]), ...$body]);
    }

    private function hear(string $op, array $fields, string $body): void
    {
        $lease = ($fields['job'] ?? '') . ' ' . ($fields['attempt'] ?? '');
        $job = $this->jobs[$lease] ?? null;
        if ($op === 'welcome') {
            $this->ready['session'] = $fields['session'] ?? null;
            $this->interval = $fields['heartbeat_ms'] / 1000;
            $this->welcomed = true;
            $this->drained = false;
            $this->beat();
        } elseif ($op === 'drain') {
            $this->drained = true;
        } elseif ($op === 'bye') {
            $this->connect();
        } elseif ($op === 'job' && !$job) {
            $of_older = fn (Job $held) => $held->lease['job'] === $fields['job']; // its attempt is over
            $this->jobs = array_filter($this->jobs, fn (Job $held) => !$of_older($held));
            $this->goOn($this->jobs[$lease] = $this->take($fields, $body));
        } elseif ($op === 'window' && $job) {
            $job->taken = max($job->taken, $fields['seq'] + 1);
            if ($job->goesOn()) {
                $this->goOn($job);
            }
        } elseif ($op === 'cancel' && $job?->goesOn()) {
            $job->pieces = array_slice($job->pieces, 0, $job->sent);
            $job->outcome = ['error', ['class' => 'retry', 'code' => 'cancelled'], ''];
            $this->goOn($job);
        } elseif ($op === 'acked') {
            foreach ($fields['jobs'] as [$number, $attempt]) {
                unset($this->jobs["$number $attempt"]);
            }
        } elseif ($op === 'error' && $fields['code'] === 'stale') {
            unset($this->jobs[$lease]);
        } elseif ($op === 'error' && $fields['code'] === 'unknown_session') {
            if ($this->welcomed || self::now() > $this->introduced + $this->interval) { // else its answer is on its way
                $this->introduce();
            }
        } elseif ($op === 'error') {
            fwrite(STDERR, "{$fields['code']}: " . ($fields['message'] ?? '') . "\n");
        }
    }

    private function take(array $fields, string $body): Job
    {
        $lease = ['job' => $fields['job'], 'attempt' => $fields['attempt']];
        if ($this->terminated || $this->drained) {
            return new Job($lease, [], ['error', ['class' => 'released'], '']);
        }
        if ($fields['stream'] ?? false) {
            preg_match_all(($fields['service'] ?? '') === 'words' ? '/\S+/' : '/[^\n]*\n|[^\n]+/', $body, $pieces);
            return new Job($lease, $pieces[0], ['result', [], '']);
        }
        return new Job($lease, [], ['result', [], $body]);
    }
}

(new Worker($argv[1] ?? 'tcp://127.0.0.1:5571'))->run();
