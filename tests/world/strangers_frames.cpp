#include "tests/world/strangers_frames.h"

#include <array>
#include <cstring>
#include <limits>

#include "common/security/token.h"
#include "common/wire/control.h"
#include "common/wire/frame.h"
#include "meshbus/name.h"
#include "tests/support/body_union.h"
#include "wire/control_generated.h"

namespace meshbus::test {
namespace {

Parts parts_of(FrameWriter& writer) {
  Frame frame = writer.finish();
  Parts parts;
  for (auto& part : frame.parts) parts.emplace_back(part.view());
  return parts;
}

Parts one_message(std::string body, bool is_link) {
  FrameWriter writer(wire::Lane::control, is_link);
  writer.add(wire::Envelope(), body);
  return parts_of(writer);
}

constexpr std::array<std::uint64_t, 8> sharp_numbers = {0,
                                                        1,
                                                        63,
                                                        64,
                                                        255,
                                                        65535,
                                                        std::numeric_limits<std::uint32_t>::max(),
                                                        std::numeric_limits<std::uint64_t>::max()};

}  // namespace

Parts StrangerFrames::hello(bool is_link) {
  wire::HelloT hello;
  hello.version = 1;
  hello.kind = is_link ? wire::PeerKind::link : wire::PeerKind::launcher;
  hello.peer = is_link ? "unix:/nobody/is/there/" + std::to_string(pick(1000))
                       : Name::make("client")->to_string();
  hello.incarnation = random_();
  return one_message(encode_control({.id = pick(2)}, std::move(hello)), is_link);
}

Parts StrangerFrames::odd_hello() {
  wire::HelloT hello;
  hello.version = pick(3) == 0 ? static_cast<std::uint16_t>(random_()) : std::uint16_t{1};
  hello.capabilities = pick(2) == 0 ? random_() : 0;
  hello.kind = static_cast<wire::PeerKind>(pick(8));
  hello.incarnation = sharp_numbers.at(pick(sharp_numbers.size()));
  const std::array<std::string, 9> names = {"",
                                            "service",
                                            "controller",
                                            "client-1",
                                            std::string(70000, 'n'),
                                            "trainers-1_0",
                                            "unix:@x",
                                            text(),
                                            "unix:/nobody/is/there," + text()};
  hello.peer = names.at(pick(names.size()));
  if (pick(2) == 0) hello.token.assign(pick(100), static_cast<std::uint8_t>(random_()));
  return one_message(encode_control({.id = pick(3), .is_answer = pick(4) == 0}, std::move(hello)),
                     pick(4) == 0);
}

std::string StrangerFrames::text() {
  switch (pick(6)) {
    case 0: return {};
    case 1: return std::string(pick(9000), static_cast<char>('a' + pick(26)));
    case 2: return "\xff\xfe\xc0\x80";
    case 3: return "unix:/nobody/is/there,p-13Se1Maqzryj";
    case 4: return "unix:/nobody/is/there/" + std::to_string(pick(1000));
    default: return "a\nb\x1b[2J%s%n";
  }
}

wire::BodyUnion StrangerFrames::body() {
  wire::BodyUnion any;
  const auto set = [&](auto native) { any.Set(std::move(native)); };
  switch (pick(15)) {
    case 0: set(wire::HeartbeatT()); break;
    case 1: set(wire::ByeT{}), any.AsBye()->reason = pick(50) == 0 ? text() : ""; break;
    case 2: set(wire::IntroduceT{}), any.AsIntroduce()->host = text(); break;
    case 3: set(wire::WatchT{}), any.AsWatch()->proc = text(); break;
    case 4: set(wire::GoneT{}), any.AsGone()->proc = text(); break;
    case 5:
      set(wire::UndeliverableT{});
      any.AsUndeliverable()->envelope = std::make_unique<wire::Envelope>(
          random_(), host_, proc_, host_, random_(), random_(), 0, 0, wire::Kind::call,
          wire::Lane::data, std::uint8_t{0}, wire::Role::broker, 0U);
      break;
    case 6: set(wire::AckT{}), any.AsAck()->detail = text(); break;
    case 7: set(wire::RefusalT{}), any.AsRefusal()->detail = text(); break;
    case 8: set(wire::WelcomeT{}), any.AsWelcome()->host = text(); break;
    case 9: set(wire::HelloT{}), any.AsHello()->peer = text(); break;
    case 10: set(wire::GetStateT{}), any.AsGetState()->mesh = text(); break;
    case 11: set(wire::SubscribeT{}), any.AsSubscribe()->subscriber = text(); break;
    case 12: set(wire::ListMeshesT()); break;
    case 13: set(wire::ShutdownHostT()); break;
    default: set(wire::OutputTakenT{}), any.AsOutputTaken()->mesh = text(); break;
  }
  return any;
}

Parts StrangerFrames::frame(bool is_link) {
  FrameWriter writer(pick(2) == 0 ? wire::Lane::control : wire::Lane::data, is_link);
  const std::uint64_t count = pick(6);
  for (std::uint64_t i = 0; i < count; ++i) {
    wire::Envelope envelope;
    envelope.mutate_destination_proc(pick(3) == 0 ? 0 : pick(8) == 0 ? random_() : proc_);
    envelope.mutate_destination_host(pick(8) == 0 ? random_() : pick(2) == 0 ? host_ : 0);
    if (is_link && pick(2) == 0) {
      envelope.mutate_source_host(random_());
      envelope.mutate_source_proc(random_());
    }
    envelope.mutate_kind(static_cast<wire::Kind>(pick(5)));
    envelope.mutate_sequence(random_());
    envelope.mutate_port(static_cast<std::uint32_t>(pick(3)));
    envelope.mutate_hop(static_cast<std::uint8_t>(pick(4) == 0 ? pick(256) : 0));
    envelope.mutate_role(static_cast<wire::Role>(pick(8)));
    envelope.mutate_flags(static_cast<std::uint32_t>(pick(4)) & ~kFlagDetached);
    std::string bytes(pick(3) == 0 ? 16 : pick(300), 'b');
    if (pick(30) == 0) bytes.resize(kInlineLimit + pick(20000));
    if (pick(2) == 0)
      bytes = encode_union({.id = pick(4),
                            .deadline_ms = static_cast<std::uint32_t>(random_()),
                            .is_answer = pick(4) == 0},
                           body());
    writer.add(envelope, bytes);
  }
  return parts_of(writer);
}

Parts StrangerFrames::flood(std::uint64_t proc) {
  FrameWriter writer(wire::Lane::data);
  for (int i = 0; i < 8; ++i) {
    wire::Envelope envelope;
    envelope.mutate_destination_proc(proc);
    envelope.mutate_kind(wire::Kind::message);
    envelope.mutate_port(1);
    writer.add(envelope, std::string(kInlineLimit, 'f'));
  }
  return parts_of(writer);
}

void StrangerFrames::spoil_envelope(std::string& part, bool is_link) {
  const std::size_t start = sizeof(wire::FrameHeader) + (is_link ? sizeof(wire::LinkHeader) : 0);
  if (part.size() < start + sizeof(wire::Envelope)) return;
  wire::Envelope envelope;
  std::memcpy(&envelope, part.data() + start, sizeof envelope);
  const std::uint64_t number = sharp_numbers.at(pick(sharp_numbers.size()));
  switch (pick(6)) {
    case 0: envelope.mutate_length(static_cast<std::uint32_t>(number)); break;
    case 1:
      envelope.mutate_length(envelope.length() + static_cast<std::uint32_t>(pick(17)) - 8);
      break;
    case 2: envelope.mutate_flags(static_cast<std::uint32_t>(number)); break;
    case 3: envelope.mutate_kind(static_cast<wire::Kind>(number)); break;
    case 4: envelope.mutate_lane(static_cast<wire::Lane>(number)); break;
    default: envelope.mutate_destination_host(number); break;
  }
  std::memcpy(part.data() + start, &envelope, sizeof envelope);
}

Parts StrangerFrames::spoil(Parts parts) {
  std::string& part = parts.at(pick(parts.size()));
  const auto number = static_cast<std::uint16_t>(sharp_numbers.at(pick(sharp_numbers.size())));
  switch (pick(9)) {
    case 0: part.resize(pick(part.size() + 1)); break;
    case 1: parts.emplace_back(pick(100), 'x'); break;
    case 2: parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(pick(parts.size()))); break;
    case 3: part.append(pick(200), '\0'); break;
    case 4: spoil_envelope(parts.front(), /*is_link=*/pick(2) == 0); break;
    case 5:  // count, flags
      if (part.size() >= 8) std::memcpy(part.data() + 4 + 2 * pick(2), &number, sizeof number);
      break;
    case 6:  // credit
      if (part.size() >= 16) std::memset(part.data() + 8, static_cast<int>(pick(256)), 8);
      break;
    default:  // anywhere, most of all in the offsets of FlatBuffers
      for (std::uint64_t i = 0; i < 1 + pick(4) && !part.empty(); ++i)
        part[pick(part.size())] = static_cast<char>(
            pick(2) == 0 ? random_() : sharp_numbers.at(pick(sharp_numbers.size())));
      break;
  }
  if (parts.empty()) parts.emplace_back();
  return parts;
}

Parts StrangerFrames::garbage() {
  Parts parts;
  for (std::uint64_t i = 0; i < 1 + pick(4); ++i) {
    parts.emplace_back(pick(20) == 0 ? pick(100'000) : pick(300), '\0');
    for (char& c : parts.back()) c = static_cast<char>(random_());
  }
  return parts;
}

}  // namespace meshbus::test
