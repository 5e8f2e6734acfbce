#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Has one job done and prints its answer.   request.pl [ENDPOINT [SERVICE [BODY]]]
use v5.36;
use Data::MessagePack;
use ZMQ::FFI qw(:all);

my ($endpoint, $service, $text) = (@ARGV, ("tcp://127.0.0.1:5570", "echo", "hello")[@ARGV .. 2]);
open my $random, '<:raw', '/dev/urandom' or die $!;
read $random, my $id, 16;
my $strings = Data::MessagePack->new->utf8;    # else they are bytes; the body is, in a frame of its own
my $submit = $strings->pack(["LMQ1", "submit", {service => $service, id => unpack("H*", $id)}]);
my $context = ZMQ::FFI->new;
for (1 .. 10) {
    my $client = $context->socket(ZMQ_REQ);    # which has a linger of 0
    $client->die_on_error(0);
    $client->set(ZMQ_RCVTIMEO, 'int', 2000);
    if ($ENV{LANEMQ_BROKER_KEY}) {
        $client->set(ZMQ_CURVE_SERVERKEY, 'string', $ENV{LANEMQ_BROKER_KEY});
        $client->set(ZMQ_CURVE_PUBLICKEY, 'string', $ENV{LANEMQ_PUBLIC_KEY});
        $client->set(ZMQ_CURVE_SECRETKEY, 'string', $ENV{LANEMQ_SECRET_KEY});
    }
    $client->connect($endpoint);
    $client->send_multipart([$submit, $text]);
    my ($header, @rest) = $client->recv_multipart;
    $client->close;
    if ($header) {
        my (undef, $op, $fields, @inside) = Data::MessagePack->unpack($header)->@*;
        if ($op eq 'error') {
            say STDERR "$fields->{code}: ", $fields->{message} // "";
            exit 1;
        }
        say +(@inside, @rest, "")[0];
        exit 0;
    }
    # Silence: ask again by a new socket. The id is the same, so the work is not done twice.
    say STDERR "no answer yet";
}
say STDERR "no answer";
exit 3;
