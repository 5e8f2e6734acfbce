<?php
// SPDX-License-Identifier: Apache-2.0
// Has one job done and prints its answer.   request.php [ENDPOINT [SERVICE [BODY]]]
declare(strict_types=1);

[, $endpoint, $service, $text] = $argv + ['', 'tcp://127.0.0.1:5570', 'echo', 'hello'];
$submit = msgpack_pack(['LMQ1', 'submit', ['service' => $service, 'id' => bin2hex(random_bytes(16))]]);
$context = new ZMQContext();
for ($attempt = 0; $attempt < 10; ++$attempt) {
    $client = new ZMQSocket($context, ZMQ::SOCKET_REQ);
    $client->setSockOpt(ZMQ::SOCKOPT_LINGER, 0);
    $client->setSockOpt(ZMQ::SOCKOPT_RCVTIMEO, 2000);
    if ($key = getenv('LANEMQ_BROKER_KEY')) {
        $client->setSockOpt(ZMQ::SOCKOPT_CURVE_SERVERKEY, $key);
        $client->setSockOpt(ZMQ::SOCKOPT_CURVE_PUBLICKEY, getenv('LANEMQ_PUBLIC_KEY'));
        $client->setSockOpt(ZMQ::SOCKOPT_CURVE_SECRETKEY, getenv('LANEMQ_SECRET_KEY'));
    }
    $client->connect($endpoint);
    $client->sendMulti([$submit, $text]); // The body has a frame of its own: strings are never msgpack's bin here.
    if ($frames = $client->recvMulti()) {
        [, $op, $fields] = $header = msgpack_unpack($frames[0]);
        if ($op === 'error') {
            fwrite(STDERR, "{$fields['code']}: " . ($fields['message'] ?? '') . "\n");
            exit(1);
        }
        echo $header[3] ?? $frames[1] ?? '', "\n";
        exit(0);
    }
    unset($client); // Silence: ask again by a new socket. The id is the same, so the work is not done twice.
    fwrite(STDERR, "no answer yet\n");
}
fwrite(STDERR, "no answer\n");
exit(3);
