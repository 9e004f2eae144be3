// What brokers say to each other: large casts that go by a tree of hosts, and the numbers of the
// frames on a link. The state of each is bounded whatever comes, and no frame is lost or doubled.
// The first byte says which.
#include <fuzzer/FuzzedDataProvider.h>

#include <chrono>
#include <set>
#include <string>

#include "broker/casts/cast_assembly.h"
#include "broker/casts/relayed_casts.h"
#include "broker/links/link_stream.h"
#include "broker/router/relay_tables.h"
#include "tests/fuzz/support.h"
#include "wire/relay_generated.h"

using namespace meshbus;
using namespace std::chrono_literals;

FUZZ_MUTATE_IN_PLACE

namespace {

void check_tables(std::string_view text) {
  const auto bytes = bytes_of(text.data(), text.size());
  if (const auto pass_on = decode_table<wire::PassOn>(bytes)) {
    const auto again = decode_table<wire::PassOn>(encode_table<wire::PassOn>(*pass_on));
    FUZZ_CHECK(again.has_value() && again->hosts == pass_on->hosts, "hosts");
    const auto branches = cast_branches(pass_on->hosts.size(), 16);
    std::size_t hosts = 0;
    for (const auto& branch : branches) hosts += branch.count;
    FUZZ_CHECK(hosts == pass_on->hosts.size() && branches.size() <= 16, "a tree of them");
  }
  if (const auto cast = decode_table<wire::DetachedCast>(bytes))
    FUZZ_CHECK(cast->digest.size() <= text.size(), "a digest");
}

/// Casts whose bodies come in any order, or never, from senders that say anything.
void check_assembly(FuzzedDataProvider& input) {
  constexpr CastAssembly::Limits kLimits{.bytes = 4096, .count = 16, .wait = 5s};
  CastAssembly assembly(kLimits);
  CastAssembly::Time now{100s};
  std::size_t added = 0, out = 0;
  while (input.remaining_bytes() > 0) {
    CastAssembly::Message message;
    message.envelope.mutate_source_host(input.ConsumeIntegralInRange<std::uint64_t>(0, 2));
    message.envelope.mutate_source_proc(input.ConsumeIntegralInRange<std::uint64_t>(0, 2));
    const auto number = input.ConsumeIntegralInRange<std::uint64_t>(0, 8);
    const auto body = input.ConsumeRandomLengthString(64);
    switch (input.ConsumeIntegralInRange(0, 3)) {
      case 0:
        message.number = number + 1;
        message.digest = input.ConsumeBool() ? digest_of(body) : body;
        if (assembly.add(std::move(message), now)) ++added;
        break;
      case 1:
        if (!assembly.is_held(message.envelope)) break;
        message.body = MessagePart(body);
        if (assembly.add(std::move(message), now)) ++added;
        break;
      case 2: assembly.add_body(number + 1, MessagePart(body), now); break;
      default:
        now += std::chrono::milliseconds(input.ConsumeIntegralInRange(0, 3000));
        out += assembly.expire(now).size();
        break;
    }
    out += assembly.take_ready().size();
    FUZZ_CHECK(assembly.count() == added - out, "a message is lost or doubled");
    FUZZ_CHECK(assembly.bytes() <= 2 * kLimits.bytes + 4096, "its memory");
  }
  out += assembly.expire(now + 1h).size();
  FUZZ_CHECK(added == out && assembly.count() == 0, "what waits for ever");
}

void check_casts(FuzzedDataProvider& input) {
  RelayedCasts casts({.bytes = 4096, .limit = 10s});
  RelayedCasts::Time now{100s};
  std::uint64_t number = 0;
  while (input.remaining_bytes() > 0) {
    switch (input.ConsumeIntegralInRange(0, 2)) {
      case 0: {
        const auto body = input.ConsumeRandomLengthString(64);
        if (!casts.has_room(body.size())) break;
        std::set<std::uint64_t> hosts;
        for (int i = input.ConsumeIntegralInRange(1, 6); i > 0; --i)
          hosts.insert(input.ConsumeIntegralInRange<std::uint64_t>(1, 9));
        casts.add(++number, MessagePart(body), {hosts.begin(), hosts.end()}, now);
        break;
      }
      case 1:
        casts.here(input.ConsumeIntegralInRange<std::uint64_t>(0, number + 1),
                   input.ConsumeIntegralInRange<std::uint64_t>(0, 10), now);
        break;
      default:
        now += std::chrono::milliseconds(input.ConsumeIntegralInRange(0, 3000));
        casts.look(now,
                   [&](std::uint64_t, std::uint64_t, MessagePart&) { return input.ConsumeBool(); });
        break;
    }
    FUZZ_CHECK(casts.bytes() <= 4096 + 64, "its memory");
  }
  casts.look(now + 1h, [](std::uint64_t, std::uint64_t, MessagePart&) { return true; });
  FUZZ_CHECK(casts.empty() && casts.bytes() == 0, "what is kept for ever");
}

/// Two ends and the connections between them, which break at any time; and acknowledgements that
/// were never due.
void check_link(FuzzedDataProvider& input) {
  LinkStream sender(64 * 1024, {}), receiver(64 * 1024, {.incarnation = 1});
  std::uint64_t next = 0, heard = 0;
  while (input.remaining_bytes() > 0) {
    switch (input.ConsumeIntegralInRange(0, 4)) {
      case 0: {
        FrameWriter writer(wire::Lane::data, /*link=*/true);
        wire::Envelope envelope;
        envelope.mutate_sequence(++next);
        writer.add(envelope, "body");
        auto frame = writer.finish();
        const auto number = sender.next_number();
        if (!sender.has_room(frame)) {
          --next;
          break;
        }
        sender.keep(std::move(frame));
        // It arrives, or its connection breaks.
        if (!input.ConsumeBool()) break;
        if (number == receiver.taken() + 1) {
          FUZZ_CHECK(receiver.take(number), "a new frame");
          ++heard;
        }
        break;
      }
      case 1:
        sender.rewind();
        while (Frame* const frame = sender.replay()) {
          const bool is_new = sender.replay_number() > receiver.taken();
          FUZZ_CHECK(frame != nullptr && receiver.take(sender.replay_number()) == is_new,
                     "a frame that is sent again");
          heard += is_new ? 1 : 0;
          sender.replayed();
        }
        FUZZ_CHECK(heard == next, "a frame is lost");
        break;
      case 2: sender.acknowledge(receiver.taken()); break;
      case 3: {
        // One of the past, or of what was never sent. Nothing that was not taken is forgotten.
        const auto wrong = input.ConsumeBool()
                               ? sender.next_number() + input.ConsumeIntegral<std::uint32_t>()
                               : input.ConsumeIntegralInRange<std::uint64_t>(0, receiver.taken());
        sender.acknowledge(wrong);
        break;
      }
      default: FUZZ_CHECK(!receiver.take(receiver.taken()), "a frame twice"); break;
    }
    FUZZ_CHECK(sender.kept() >= next - heard, "a frame that nobody has");
    FUZZ_CHECK(sender.kept_bytes() <= 128 * 1024, "its memory");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Eight bytes, so that numbers behind them keep their alignment for the mutator.
  if (size < 8) return 0;
  FuzzedDataProvider input(data + 8, size - 8);
  switch (data[0] % 4) {
    case 0: check_tables(fuzz::text_of(data + 8, size - 8)); break;
    case 1: check_assembly(input); break;
    case 2: check_casts(input); break;
    default: check_link(input); break;
  }
  return 0;
}
