-- Every part of the language a little, the same each time: no addresses, no clock, no random numbers.
local function primes(n)
  local sieve, found = {}, {}
  for i = 2, n do
    if not sieve[i] then
      found[#found + 1] = i
      for j = i * i, n, i do sieve[j] = true end
    end
  end
  return found
end

local Account = {}
Account.__index = Account
Account.__add = function(a, b) return Account.new(a.balance + b.balance) end
Account.__lt = function(a, b) return a.balance < b.balance end
Account.__le = function(a, b) return a.balance <= b.balance end
Account.__eq = function(a, b) return a.balance == b.balance end
Account.__concat = function(a, b) return tostring(a) .. tostring(b) end
Account.__len = function(a) return a.balance end
Account.__unm = function(a) return Account.new(-a.balance) end
Account.__call = function(a, n) return a.balance * n end
Account.__tostring = function(a) return "<" .. a.balance .. ">" end
Account.__close = function(a) io.write("closed ", a.balance, "\n") end
Account.__gc = function() end
function Account.new(balance) return setmetatable({balance = balance}, Account) end
function Account:deposit(n)
  if n < 0 then error({code = n}) end
  self.balance = self.balance + n
  return self
end

local function walk(node, depth)
  if depth == 0 then return nil end
  return {left = walk(node, depth - 1), value = depth, right = walk(node, depth - 1)}
end
local function total(tree)
  if not tree then return 0 end
  return total(tree.left) + tree.value + total(tree.right)
end
local function range(first, last)
  return coroutine.wrap(function() for i = first, last do coroutine.yield(i, i * i) end end)
end
local function many(...)
  local n, sum = select("#", ...), 0
  for i = 1, n do sum = sum + (select(i, ...) or 0) end
  return n, sum, ...
end

local p = primes(3000)
print(#p, p[#p], table.concat(p, " ", 1, 8))

local a, b = Account.new(3), Account.new(4)
print(tostring(a + b), a < b, a <= b, a == b, #a, a .. b, tostring(-a), a(5), a ~= b, not (a > b))
print(pcall(a.deposit, a, -1) == false, select(2, pcall(error, "plain", 0)), select("#", pcall(function() return nil + 1 end)))
print(select(2, pcall(function() local t = setmetatable({}, {__index = function(_, k) error("no " .. k, 0) end}) return t.x end)))
do
  local c <close> = Account.new(9)
  local limit <const> = 3
  for i = 1, limit do a:deposit(i) end
end
print(tostring(a), total(walk(nil, 9)))

local sum = 0
for i, square in range(1, 50) do sum = sum + i * square end
print(sum, many(1, 2, nil, 4))

local words = {}
for word in ("the quick brown fox jumps over the lazy dog while the cat sleeps"):gmatch("%a+") do words[#words + 1] = word end
table.sort(words, function(x, y) return #x == #y and x < y or #x < #y end)
print(table.concat(words, ","), ("x"):rep(5, "-"), ("hello"):upper():reverse(), ("%5.2f|%-6d|%q|%x"):format(3.14159, 42, "a\nb", 255))
print(("key = value; other = 12"):gsub("(%w+) = (%w+)", "%2 = %1"), ("a,b,,c"):find(",", 1, true), ("abc"):byte(1, -1))

local bits = 0
for i = 0, 200 do bits = ((bits << 3) ~ (bits >> 5) ~ i) & 0xffffffff; bits = bits | (i % 7); bits = ~bits & 0xffff end
print(bits, 7 // 2, -7 // 2, 7 % -3, 2 ^ 10, 7 / 2, 1e15, math.maxinteger + 1 == math.mininteger, 3 | 4, 10 // 0.3)
print(string.pack("<i4z", 77, "s"):byte(1, -1), utf8.char(228, 8364), utf8.len("äö"), math.type(1), math.type(1.0), math.tointeger(3.0))

local i = 0
repeat
  i = i + 1
  if i % 3 == 0 then goto continue end
  if i > 40 then break end
  ::continue::
until i > 100
while i > 0 do i = i - 2 end
print(i, load("local x, y = ... ; return x .. y, #'ab'")("p", "q"), load("syntax error here"))

local function every(x, y, t)
  local n = x - y + x * y + x // y + x % y + (x & y) + (x | y) + (x ~ y) + (x >> y) + (x << y)
  n = n + x * 2 + (x - 2) + x // 2 + (x | 1) + (x ~ 1) + (1 << x) + (x << 1) + (-x) + ~y
  local f = x / y + x ^ y + x / 2 + x ^ 2 + x // 0.5 + x % 2.5
  t[1] = t[1] + 1; t[2] = not t[3]; counter = (counter or 0) + 1; sum = sum + 1
  local chosen = x > 5 and y or n
  if x <= 3 or x >= 9 or x < y or x <= y or x == 4 or y ~= 2.0 or t == "text" then n = n + 1 end
  return n, f, chosen, #t
end
for x = 1, 10 do print(every(x, 3, {1, 2, 3})) end
print(pcall(function(t) return t.x.y.z end, {}), 2 .. 3, counter, -"2" + "10" * 2, sum)

local matrix = {}
for r = 1, 20 do matrix[r] = {} for c = 1, 20 do matrix[r][c] = r * c % 7 + 0.5 end end
local trace = 0
for r = 1, 20 do for c = 1, 20 do trace = trace + matrix[r][c] * matrix[c][r] end end
print(trace, #table.pack(table.unpack(p, 1, 100)), next({}), rawlen({1, 2}), rawequal(a, a), rawget(a, "balance"))
collectgarbage() collectgarbage("generational") collectgarbage("step") collectgarbage("incremental")
for n = 1, 300 do local t = {n, tostring(n), {n}} end
collectgarbage()
print(string.dump(function(x) return x + 1 end):sub(2, 4), load(string.dump(function(x) return x + 1 end))(41))
