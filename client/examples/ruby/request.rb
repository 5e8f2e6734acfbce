# SPDX-License-Identifier: Apache-2.0
# Has one job done and prints its answer.   request.rb [ENDPOINT [SERVICE [BODY]]]
require "ffi-rzmq"
require "msgpack"
require "securerandom"

endpoint, service, text = ARGV + ["tcp://127.0.0.1:5570", "echo", "hello"].drop(ARGV.size)
submit = ["LMQ1", "submit", { "service" => service, "id" => SecureRandom.uuid }, text.b].to_msgpack
context = ZMQ::Context.new
10.times do
  client = context.socket(ZMQ::REQ)
  client.setsockopt(ZMQ::LINGER, 0)
  client.setsockopt(ZMQ::RCVTIMEO, 2000)
  if (key = ENV["LANEMQ_BROKER_KEY"])
    client.setsockopt(ZMQ::CURVE_SERVERKEY, key)
    client.setsockopt(ZMQ::CURVE_PUBLICKEY, ENV["LANEMQ_PUBLIC_KEY"])
    client.setsockopt(ZMQ::CURVE_SECRETKEY, ENV["LANEMQ_SECRET_KEY"])
  end
  client.connect(endpoint)
  client.send_string(submit)
  unless client.recv_strings(frames = []) == -1
    _, op, fields, inside = MessagePack.unpack(frames[0])
    abort "#{fields["code"]}: #{fields["message"]}" if op == "error"
    print inside || frames[1], "\n"
    exit
  end
  client.close # Silence: ask again by a new socket. The id is the same, so the work is not done twice.
  warn "no answer yet"
end
warn "no answer"
exit 3
