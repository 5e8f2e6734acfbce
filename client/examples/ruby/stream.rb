# SPDX-License-Identifier: Apache-2.0
# Prints the pieces of a job's answer as they come, a line each.   stream.rb [ENDPOINT [SERVICE [BODY]]]
require "ffi-rzmq"
require "msgpack"
require "securerandom"

$stdout.sync = true

class Stream
  def initialize(endpoint, service, text)
    @endpoint, @service, @text = endpoint, service, text
    @context, @id = ZMQ::Context.new, SecureRandom.uuid
    @taken = 0 # how many pieces have come, which is the number of the next one
  end

  def say(op, fields, *body)
    @client.send_string(["LMQ1", op, { "id" => @id, **fields }, *body].to_msgpack)
  end

  def fetch
    say("fetch", { "from_seq" => @taken, "wait_ms" => 1000 })
  end

  # Makes a new connection, and asks by it for the pieces that have not come yet.
  def connect
    @client&.close
    @client = @context.socket(ZMQ::DEALER)
    @client.setsockopt(ZMQ::LINGER, 0)
    @client.setsockopt(ZMQ::RCVTIMEO, 1000)
    if (key = ENV["LANEMQ_BROKER_KEY"])
      @client.setsockopt(ZMQ::CURVE_SERVERKEY, key)
      @client.setsockopt(ZMQ::CURVE_PUBLICKEY, ENV["LANEMQ_PUBLIC_KEY"])
      @client.setsockopt(ZMQ::CURVE_SECRETKEY, ENV["LANEMQ_SECRET_KEY"])
    end
    @client.connect(@endpoint)
    @taken > 0 ? fetch : say("submit", { "service" => @service, "stream" => true }, @text.b)
  end

  def run
    connect
    silences = waited = 0 # seconds without any word; without one about the job
    until silences == 20
      if @client.recv_strings(frames = []) == -1
        silences += 1
        waited += 1
        # The job may take long: is the broker there?
        silences.even? || waited % 8 == 0 ? connect : say("ping", {})
      else
        silences = 0
        op, fields, inside = read(frames[0])
        waited = 0 unless op == "pong"
        hear(op, fields, inside || frames[1] || "")
      end
    end
    warn "no answer"
    exit 3
  end

  def read(frame)
    MessagePack.unpack(frame).drop(1)
  rescue MessagePack::UnpackError, EOFError
    ["unreadable", {}] # what a later version may say
  end

  def hear(op, fields, body)
    case op
    when "chunk"
      return connect if fields["seq"] > @taken # this client was too slow for what is missing
      return if fields["seq"] < @taken
      print body, "\n"
      say("seen", { "seq" => @taken })
      @taken += 1
    when "status" then fetch # nothing new for a second; the job goes on
    when "result"
      return connect if fields["chunks"].to_i > @taken
      print body, "\n" unless body.empty?
      exit
    when "error"
      return connect if fields["code"] == "slow_reader"
      abort "#{fields["code"]}: #{fields["message"]}"
    end
  end
end

Stream.new(*ARGV, *["tcp://127.0.0.1:5570", "words", "one two three"].drop(ARGV.size)).run
