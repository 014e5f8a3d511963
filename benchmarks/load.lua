-- What wrk sends, and how it tells what came back. Arguments after `--`: path, proof, and whether every
-- request carries its own proof ("unique"): a journal serves one proof once. With "open-first" at the end, nothing
-- is sent before all connections are open.

counter = 0

local ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

local function encode(text)
    -- The base64 of a text whose length can be divided by three.
    local parts = {}
    for start = 1, #text, 3 do
        local first, second, third = text:byte(start, start + 2)
        local bits = first * 65536 + second * 256 + third
        for shift = 18, 0, -6 do
            local place = math.floor(bits / 2 ^ shift) % 64 + 1
            parts[#parts + 1] = ALPHABET:sub(place, place)
        end
    end
    return table.concat(parts)
end

function setup(thread)
    -- wrk gives every thread its own Lua state; the number keeps their proofs apart.
    threads = (threads or 0) + 1
    thread:set("number", threads)
end

local OPENING_MS = 200

local function open_first(connections)
    -- Only the first request of each connection waits.
    local waiting = connections
    delay = function()
        waiting = waiting - 1
        return waiting >= 0 and OPENING_MS or 0
    end
end

function init(args)
    path, proof, unique = args[1], args[2], args[3] == "unique"
    if args[#args - 1] == "open-first" then
        open_first(tonumber(args[#args]))
    end
    if args[3] == "signed" then
        -- A file of proofs, and how many of them were sent before.
        signed, counter = {}, tonumber(args[4])
        for line in io.lines(proof) do signed[#signed + 1] = line end
    end
    local start = "GET " .. path .. " HTTP/1.1\r\nHost: " .. wrk.host .. ":" .. wrk.port .. "\r\nAccept: */*\r\n"
    head = proof == "" and start or start .. "PAYMENT-SIGNATURE: " .. (signed and "" or proof)
    tail = proof == "" and "\r\n" or "\r\n\r\n"
    if unique then
        -- The serial of a proof stands where its template has a star.
        local star = head:find("*", #start, true)
        head, tail = head:sub(1, star - 1), head:sub(star + 1) .. tail
    end
    -- Seconds of the clock: the proofs of a warm-up must not come again in the round after it.
    serial = string.format("%08x%02x", os.time() % 0xffffffff, number)
end

function request()
    if signed then
        counter = counter + 1
        return head .. (signed[counter] or "none is left") .. tail
    end
    if not unique then
        return head .. tail
    end
    counter = counter + 1
    return head .. encode(serial .. string.format("%011x", counter)) .. tail
end

function done(summary, latency, requests)
    local errors = summary.errors
    io.write(string.format(
        'RESULT {"requests": %d, "seconds": %.6f, "p50_ms": %.3f, "p99_ms": %.3f, ' ..
        '"refused": %d, "broken": %d}\n',
        summary.requests, summary.duration / 1e6,
        latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
        errors.status, errors.connect + errors.read + errors.write + errors.timeout
    ))
end
