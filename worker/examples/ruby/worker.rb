# SPDX-License-Identifier: Apache-2.0
# Serves `echo` and `words` until TERM or Ctrl-C.   worker.rb [ENDPOINT]
require "ffi-rzmq"
require "msgpack"

# What is held until the broker has answered its outcome. `taken`: how many of its pieces a reader has taken, as far as known.
Job = Struct.new(:lease, :pieces, :outcome, :sent, :taken) do
  def going_on? = sent < pieces.size
end

class Worker
  def initialize(endpoint)
    @endpoint, @context = endpoint, ZMQ::Context.new
    @ready = { "services" => ["echo", "words"], "capacity" => 4, "resumes" => true }
    @jobs = {} # by [job, attempt]
    @interval = 0.8 # seconds; until `welcome` says another
    @terminated, @drained = false, false # by a signal; by an operator
  end

  def run
    %w[TERM INT].each { |name| trap(name) { terminate(name) } }
    connect
    until @terminated && @jobs.empty?
      @worker.setsockopt(ZMQ::RCVTIMEO, [0, (1000 * (@due - now)).ceil].max)
      if @worker.recv_strings(frames = []) != -1
        @heard = now
        read(frames)
      end
      if now > @heard + 3 * @interval
        warn "the broker is silent"
        connect
      elsif now >= @due
        @welcomed ? beat : introduce
      end
    end
    say("bye", {})
    @worker.close
  end

  private

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def say(op, fields, *body)
    @worker.send_string(["LMQ1", op, fields, *body].to_msgpack)
  end

  def read(frames)
    _, op, fields, inside = MessagePack.unpack(frames[0])
  rescue MessagePack::UnpackError, EOFError
    # A sign of life that a later version may understand.
  else
    hear(op, fields, inside || frames[1] || "".b)
  end

  def terminate(name)
    @terminated = true
    trap(name, "DEFAULT") # a second one ends it at once
  end

  def connect
    @worker&.close
    @worker = @context.socket(ZMQ::DEALER)
    @worker.setsockopt(ZMQ::LINGER, 1000)
    if (key = ENV["LANEMQ_BROKER_KEY"])
      @worker.setsockopt(ZMQ::CURVE_SERVERKEY, key)
      @worker.setsockopt(ZMQ::CURVE_PUBLICKEY, ENV["LANEMQ_PUBLIC_KEY"])
      @worker.setsockopt(ZMQ::CURVE_SECRETKEY, ENV["LANEMQ_SECRET_KEY"])
    end
    @worker.connect(@endpoint)
    @heard = now
    introduce
  end

  # What a broker hears first, and again when it does not know this worker: who it is, and all that it holds.
  def introduce
    @introduced, @welcomed = now, false
    say("ready", @ready)
    beat
    @jobs.each_value do |job|
      job.sent = job.taken
      go_on(job)
    end
  end

  def beat
    say("heartbeat", { "jobs" => @jobs.keys })
    @due = now + @interval
  end

  # Says the pieces that the window has room for, and behind the last one the outcome.
  def go_on(job)
    while job.going_on?
      under_way = job.pieces[job.taken...job.sent]
      return if under_way.size >= 64 || under_way.sum(&:bytesize) >= 262_144
      say("chunk", { **job.lease, "seq" => job.sent }, job.pieces[job.sent])
      job.sent += 1
    end
    op, fields, body = job.outcome
    say(op, { **job.lease, **fields }, body)
  end

  def hear(op, fields, body)
    lease = fields.values_at("job", "attempt")
    job = @jobs[lease]
    case op
    when "welcome"
      @ready["session"] = fields["session"]
      @interval = fields["heartbeat_ms"] / 1000.0
      @welcomed, @drained = true, false
      beat
    when "drain" then @drained = true
    when "bye" then connect
    when "job"
      return if job
      @jobs.delete_if { |(number, _), _| number == lease[0] } # an older attempt, which is over
      go_on(@jobs[lease] = take(fields, body))
    when "window"
      return unless job
      job.taken = [job.taken, fields["seq"] + 1].max
      go_on(job) if job.going_on?
    when "cancel"
      return unless job&.going_on? # else its outcome is on the way
      job.pieces = job.pieces.take(job.sent)
      job.outcome = ["error", { "class" => "retry", "code" => "cancelled" }, "".b]
      go_on(job)
    when "acked"
      fields["jobs"].each { |acked| @jobs.delete(acked) }
    when "error"
      refused(fields, lease)
    end
  end

  def take(fields, body)
    job = Job.new(fields.slice("job", "attempt"), [], ["result", {}, body], 0, 0)
    if @terminated || @drained
      job.outcome = ["error", { "class" => "released" }, "".b]
    elsif fields["stream"]
      job.pieces = fields["service"] == "words" ? body.split : body.lines("\n")
      job.outcome = ["result", {}, "".b]
    end
    job
  end

  def refused(fields, lease)
    case fields["code"]
    when "stale" then @jobs.delete(lease)
    when "unknown_session"
      introduce if @welcomed || now > @introduced + @interval # else the answer to `ready` is on its way
    else warn "#{fields["code"]}: #{fields["message"]}"
    end
  end
end

Worker.new(ARGV[0] || "tcp://127.0.0.1:5571").run
