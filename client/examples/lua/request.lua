-- SPDX-License-Identifier: Apache-2.0
-- Has one job done and prints its answer.   request.lua [ENDPOINT [SERVICE [BODY]]]
package.path = arg[0]:gsub("[^/]*$", "?.lua;") .. package.path
local lmq1 = require "lmq1"

local endpoint, service, text = arg[1] or "tcp://127.0.0.1:5570", arg[2] or "echo", arg[3] or "hello"
local random = assert(io.open("/dev/urandom", "rb"))
local id = random:read(16):gsub(".", function(byte) return ("%02x"):format(byte:byte()) end)
for _ = 1, 10 do
  local client = lmq1.connect(lmq1.REQ, endpoint, 0)
  client:say("submit", {service = service, id = id}, text)
  local op, fields, body = client:hear(2)
  if op == "error" then
    io.stderr:write(fields.code, ": ", fields.message or "", "\n")
    os.exit(1)
  elseif op then
    io.write(body, "\n")
    os.exit(0)
  end
  client:close() -- Silence: ask again by a new socket. The id is the same, so the work is not done twice.
  io.stderr:write("no answer yet\n")
end
io.stderr:write("no answer\n")
os.exit(3)
