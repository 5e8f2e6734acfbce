#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Serves `echo` and `words` until TERM or Ctrl-C.   worker.pl [ENDPOINT]
use v5.36;
use Data::MessagePack;
use List::Util qw(max sum0);
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);
use ZMQ::FFI qw(:all);

my $endpoint = $ARGV[0] // "tcp://127.0.0.1:5571";
my %ready = (services => ["echo", "words"], capacity => 4, resumes => Data::MessagePack::true());
my %jobs;    # "job attempt" -> what is held until the broker has answered its outcome
my $strings = Data::MessagePack->new->utf8;    # else they are bytes; bodies are, in frames of their own
my $context = ZMQ::FFI->new;
my $interval = 0.8;    # seconds; until `welcome` says another
my ($terminated, $drained) = (0, 0);    # by a signal; by an operator
my ($worker, $heard, $due, $introduced, $welcomed);

sub now { clock_gettime(CLOCK_MONOTONIC) }

sub tell_broker ($op, $fields, @body) { $worker->send_multipart([$strings->pack(["LMQ1", $op, $fields]), @body]) }

sub reconnect {
    $worker->close if $worker;
    $worker = $context->socket(ZMQ_DEALER);
    $worker->die_on_error(0);
    $worker->set_linger(1000);
    if ($ENV{LANEMQ_BROKER_KEY}) {
        $worker->set(ZMQ_CURVE_SERVERKEY, 'string', $ENV{LANEMQ_BROKER_KEY});
        $worker->set(ZMQ_CURVE_PUBLICKEY, 'string', $ENV{LANEMQ_PUBLIC_KEY});
        $worker->set(ZMQ_CURVE_SECRETKEY, 'string', $ENV{LANEMQ_SECRET_KEY});
    }
    $worker->connect($endpoint);
    $heard = now();
    introduce();
}

# What a broker hears first, and again when it does not know this worker: who it is, and all that it holds.
sub introduce {
    ($introduced, $welcomed) = (now(), 0);
    tell_broker("ready", \%ready);
    beat();
    for my $job (values %jobs) {
        $job->{sent} = $job->{taken};
        go_on($job);
    }
}

sub beat {
    tell_broker("heartbeat", {jobs => [map { [$_->{lease}->@{qw(job attempt)}] } values %jobs]});
    $due = now() + $interval;
}

sub is_going_on ($job) { $job && $job->{sent} < $job->{pieces}->@* }

# Says the pieces that the window has room for, and behind the last one the outcome.
sub go_on ($job) {
    while (is_going_on($job)) {
        my @under_way = $job->{pieces}->@[$job->{taken} .. $job->{sent} - 1];
        return if @under_way >= 64 || sum0(map { length } @under_way) >= 262144;
        tell_broker("chunk", {$job->{lease}->%*, seq => $job->{sent}}, $job->{pieces}[$job->{sent}]);
        $job->{sent}++;
    }
    my ($op, $fields, @body) = $job->{outcome}->@*;
    tell_broker($op, {$job->{lease}->%*, %$fields}, @body);
}

sub take ($fields, $body) {
    my %lease = (job => 0 + $fields->{job}, attempt => 0 + $fields->{attempt});    # numbers, also where they were read as texts
    my %job = (lease => \%lease, pieces => [], outcome => ["result", {}, $body], sent => 0, taken => 0);
    if ($terminated || $drained) {
        $job{outcome} = ["error", {class => "released"}];
    } elsif ($fields->{stream}) {
        $job{pieces} = [($fields->{service} // "") eq "words" ? split ' ', $body : $body =~ /[^\n]*\n|[^\n]+/g];
        $job{outcome} = ["result", {}];
    }
    return \%job;
}

sub hear ($op, $fields, $body) {
    my $lease = join " ", map { $_ // "" } $fields->@{qw(job attempt)};
    my $job = $jobs{$lease};
    if ($op eq "welcome") {
        ($ready{session}, $interval, $welcomed, $drained) = ($fields->{session}, $fields->{heartbeat_ms} / 1000, 1, 0);
        beat();
    } elsif ($op eq "drain") {
        $drained = 1;
    } elsif ($op eq "bye") {
        reconnect();
    } elsif ($op eq "job" && !$job) {
        delete $jobs{$_} for grep { /^$fields->{job} / } keys %jobs;    # an older attempt, which is over
        go_on($jobs{$lease} = take($fields, $body));
    } elsif ($op eq "window" && $job) {
        $job->{taken} = max($job->{taken}, $fields->{seq} + 1);
        go_on($job) if is_going_on($job);
    } elsif ($op eq "cancel" && is_going_on($job)) {
        splice $job->{pieces}->@*, $job->{sent};
        $job->{outcome} = ["error", {class => "retry", code => "cancelled"}];
        go_on($job);
    } elsif ($op eq "acked") {
        delete $jobs{"@$_"} for $fields->{jobs}->@*;
    } elsif ($op eq "error" && $fields->{code} eq "stale") {
        delete $jobs{$lease};
    } elsif ($op eq "error" && $fields->{code} eq "unknown_session") {
        introduce() if $welcomed || now() > $introduced + $interval;    # else the answer to `ready` is on its way
    } elsif ($op eq "error") {
        say STDERR "$fields->{code}: ", $fields->{message} // "";
    }
}

for my $name (qw(TERM INT)) {
    $SIG{$name} = sub { ($terminated, $SIG{$name}) = (1, 'DEFAULT') };    # a second one ends it at once
}
reconnect();
until ($terminated && !%jobs) {
    $worker->set(ZMQ_RCVTIMEO, 'int', max(0, int(1000 * ($due - now()) + 1)));
    if (my ($header, @rest) = $worker->recv_multipart) {
        $heard = now();
        # What cannot be read is a sign of life all the same.
        my $message = eval { Data::MessagePack->unpack($header) };
        if (ref $message eq "ARRAY") {
            my (undef, $op, $fields, @inside) = @$message;
            hear($op, $fields, (@inside, @rest, "")[0]);
        }
    }
    if (now() > $heard + 3 * $interval) {
        say STDERR "the broker is silent";
        reconnect();
    } elsif (now() >= $due) {
        $welcomed ? beat() : introduce();
    }
}
tell_broker("bye", {});
$worker->close;
