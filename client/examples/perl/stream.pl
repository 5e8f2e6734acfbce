#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Prints the pieces of a job's answer as they come, a line each.   stream.pl [ENDPOINT [SERVICE [BODY]]]
use v5.36;
use Data::MessagePack;
use ZMQ::FFI qw(:all);

$| = 1;
my ($endpoint, $service, $text) = (@ARGV, ("tcp://127.0.0.1:5570", "words", "one two three")[@ARGV .. 2]);
open my $random, '<:raw', '/dev/urandom' or die $!;
read $random, my $id, 16;
my $strings = Data::MessagePack->new->utf8;    # else they are bytes; the body is, in a frame of its own
my $context = ZMQ::FFI->new;
my $client;
my $taken = 0;    # how many pieces have come, which is the number of the next one

sub tell_broker ($op, $fields, @body) {
    $client->send_multipart([$strings->pack(["LMQ1", $op, {id => unpack("H*", $id), %$fields}]), @body]);
}

sub fetch { tell_broker("fetch", {from_seq => $taken, wait_ms => 1000}) }

# Makes a new connection, and asks by it for the pieces that have not come yet.
sub reconnect {
    $client->close if $client;
    $client = $context->socket(ZMQ_DEALER);    # which has a linger of 0
    $client->die_on_error(0);
    $client->set(ZMQ_RCVTIMEO, 'int', 1000);
    if ($ENV{LANEMQ_BROKER_KEY}) {
        $client->set(ZMQ_CURVE_SERVERKEY, 'string', $ENV{LANEMQ_BROKER_KEY});
        $client->set(ZMQ_CURVE_PUBLICKEY, 'string', $ENV{LANEMQ_PUBLIC_KEY});
        $client->set(ZMQ_CURVE_SECRETKEY, 'string', $ENV{LANEMQ_SECRET_KEY});
    }
    $client->connect($endpoint);
    $taken ? fetch() : tell_broker("submit", {service => $service, stream => Data::MessagePack::true()}, $text);
}

sub leave ($code) {
    $client->close;    # the context waits for it
    exit $code;
}

sub hear ($op, $fields, $body) {
    if ($op eq 'chunk' && $fields->{seq} == $taken) {
        say $body;
        tell_broker("seen", {seq => $taken++});
    } elsif ($op eq 'chunk') {    # behind a gap: this client was too slow for what is missing
        reconnect() if $fields->{seq} > $taken;
    } elsif ($op eq 'status') {    # nothing new for a second; the job goes on
        fetch();
    } elsif ($op eq 'result' && ($fields->{chunks} // 0) > $taken || $op eq 'error' && $fields->{code} eq 'slow_reader') {
        reconnect();
    } elsif ($op eq 'result') {
        say $body if length $body;
        leave(0);
    } elsif ($op eq 'error') {
        say STDERR "$fields->{code}: ", $fields->{message} // "";
        leave(1);
    }
}

reconnect();
my ($silences, $waited) = (0, 0);    # seconds without any word; without one about the job
until ($silences == 20) {
    if (my ($header, @rest) = $client->recv_multipart) {
        $silences = 0;
        my $message = eval { Data::MessagePack->unpack($header) };
        next unless ref $message eq "ARRAY";    # what a later version may say
        my (undef, $op, $fields, @inside) = @$message;
        $waited = 0 unless $op eq "pong";
        hear($op, $fields, (@inside, @rest, "")[0]);
    } else {
        $silences++;
        $waited++;
        # The job may take long: is the broker there?
        $silences % 2 && $waited % 8 ? tell_broker("ping", {}) : reconnect();
    }
}
say STDERR "no answer";
leave(3);
