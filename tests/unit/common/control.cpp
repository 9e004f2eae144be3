#include "common/wire/control.h"

#include <doctest/doctest.h>

#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "common/wire/dispatcher.h"
#include "wire/control_generated.h"

using namespace meshbus;

TEST_CASE("control: what is encoded is decoded, with its head") {
  wire::StopProcsT stop;
  stop.mesh = "trainers-13Se1Maqzryj";
  stop.ranks = {wire::RankInterval(0, 4)};
  const auto bytes =
      encode_control({.id = 9, .deadline_ms = 100, .is_answer = true}, std::move(stop));
  const auto control = ControlMessage::decode(bytes);
  REQUIRE(control.has_value());
  CHECK((*control)->id() == 9);
  CHECK((*control)->deadline_ms() == 100);
  CHECK((*control)->is_answer());
  CHECK(control->body_name() == "StopProcs");
  const auto* body = control->body_as<wire::StopProcs>();
  REQUIRE(body != nullptr);
  CHECK(body->mesh()->str() == "trainers-13Se1Maqzryj");
  CHECK(body->ranks()->Get(0)->end() == 4);
  CHECK(control->body_as<wire::Hello>() == nullptr);
}

TEST_CASE("control: mutated and cut bytes are refused or read safely") {
  wire::SpawnProcsT spawn;
  spawn.mesh = "m";
  spawn.owner = "o";
  spawn.region = std::make_unique<wire::RegionT>();
  spawn.region->labels = {"host", "gpu"};
  spawn.region->sizes = {2, 4};
  spawn.region->strides = {4, 1};
  spawn.command = std::make_unique<wire::CommandT>();
  spawn.command->program = "true";
  spawn.command->arguments = {"true"};
  spawn.hosts = {"unix:/a", "unix:/b"};
  const auto good = encode_control({.id = 1}, std::move(spawn));
  REQUIRE(ControlMessage::decode(good).has_value());
  std::mt19937 random(20261120);
  std::size_t read = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good.substr(0, random() % 3 == 0 ? random() % good.size() : good.size());
    for (auto flips = 1 + random() % 3; flips > 0 && !bytes.empty(); --flips)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto control = ControlMessage::decode(bytes);
    if (!control) continue;
    if (const auto* body = control->body_as<wire::SpawnProcs>()) {
      read += body->mesh()->size() + body->hosts()->size() + body->region()->labels()->size();
      std::unique_ptr<wire::SpawnProcsT> copy(body->UnPack());
      read += copy->hosts.size();
    }
  }
  CHECK(read > 0);
  CHECK(ControlMessage::decode("").error().code() == ErrorCode::malformed_message);
}

namespace {

using Builder = flatbuffers::FlatBufferBuilder;

/// A message that refers to one long text `count` times: short itself, and gigabytes for a reader
/// that copies the text each time.
using ManyReferences = std::function<flatbuffers::Offset<void>(
    Builder&, flatbuffers::Offset<flatbuffers::String>, std::uint64_t count)>;

std::string many_references(wire::Body type, const ManyReferences& make_body, std::uint64_t count,
                            std::size_t length) {
  Builder builder;
  const auto text = builder.CreateString(std::string(length, 'x'));
  const auto body = make_body(builder, text, count);
  wire::FinishControlBuffer(builder, wire::CreateControl(builder, 1, 0, false, type, body));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

auto exit_reports(Builder& builder, flatbuffers::Offset<flatbuffers::String> text,
                  std::uint64_t count) {
  std::vector<flatbuffers::Offset<wire::ExitReport>> list;
  for (std::uint64_t rank = 0; rank < count; ++rank)
    list.push_back(wire::CreateExitReport(builder, rank, text));
  return builder.CreateVector(list);
}

auto spawn_of_one_argument(Builder& builder, flatbuffers::Offset<flatbuffers::String> text,
                           std::uint64_t count) {
  const auto arguments = builder.CreateVector(std::vector(count, text));
  const auto command = wire::CreateCommand(builder, text, arguments);
  const auto none = builder.CreateVector(std::vector<std::uint64_t>());
  const auto no_texts =
      builder.CreateVector(std::vector<flatbuffers::Offset<flatbuffers::String>>());
  const auto region = wire::CreateRegion(builder, no_texts, 0, none, none);
  const auto ranks = builder.CreateVectorOfStructs(std::vector<wire::RankInterval>());
  return wire::CreateSpawnProcs(builder, text, region, no_texts, 0, ranks, wire::ProcKind::plain,
                                command, text)
      .Union();
}

auto list_of_one_mesh(Builder& builder, flatbuffers::Offset<flatbuffers::String> text,
                      std::uint64_t count) {
  const auto none = builder.CreateVector(std::vector<std::uint64_t>());
  const auto no_texts =
      builder.CreateVector(std::vector<flatbuffers::Offset<flatbuffers::String>>());
  const auto region = wire::CreateRegion(builder, no_texts, 0, none, none);
  const auto mesh = wire::CreateMeshState(builder, text, region, no_texts);
  return wire::CreateMeshList(builder, text, builder.CreateVector(std::vector(count, mesh)))
      .Union();
}

}  // namespace

TEST_CASE(
    "control: a message that refers to one long text thousands of times is refused before anything "
    "is copied") {
  const std::vector<std::pair<wire::Body, ManyReferences>> rows = {
      {wire::Body::SpawnProcs, spawn_of_one_argument},
      {wire::Body::MeshList, list_of_one_mesh},
      {wire::Body::StateChanged,
       [](Builder& builder, auto text, auto count) {
         return wire::CreateStateChanged(builder, text, text, 0, exit_reports(builder, text, count))
             .Union();
       }},
      {wire::Body::MeshEvent,
       [](Builder& builder, auto text, auto count) {
         return wire::CreateMeshEvent(builder, text, text, 1, 0, exit_reports(builder, text, count))
             .Union();
       }},
      {wire::Body::ControllerState,
       [](Builder& builder, auto text, auto count) {
         const auto mesh = wire::CreateMeshOverview(builder, text);
         return wire::CreateControllerState(builder, text, 0, 0, 0, 0, 0,
                                            builder.CreateVector(std::vector(count, mesh)))
             .Union();
       }},
      {wire::Body::MeshHeartbeat,
       [](Builder& builder, auto text, auto count) {
         return wire::CreateMeshHeartbeat(builder, 0, 0, 0, 0,
                                          builder.CreateVector(std::vector(count, text)))
             .Union();
       }},
      {wire::Body::RankStatuses,
       [](Builder& builder, auto text, auto count) {
         const auto status = wire::CreateStatus(builder, wire::StatusKind::failed, text);
         const auto statuses =
             wire::CreateStatusOverlay(builder, builder.CreateVector(std::vector(count, status)));
         return wire::CreateRankStatuses(builder, text, text, statuses).Union();
       }},
      {wire::Body::HostState,
       [](Builder& builder, auto text, auto count) {
         const auto drain = wire::CreateDrain(builder, text, text, text, text);
         return wire::CreateHostState(builder, text, 0, 0, 0, 0, 0, 0,
                                      builder.CreateVector(std::vector(count, drain)))
             .Union();
       }},
      {wire::Body::EventList,
       [](Builder& builder, auto text, auto count) {
         const auto event = wire::CreateEvent(builder, wire::EventKind::stop_asked, 1, text);
         return wire::CreateEventList(builder, text,
                                      builder.CreateVector(std::vector(count, event)))
             .Union();
       }},
      {wire::Body::RenewLease,
       [](Builder& builder, auto text, auto count) {
         return wire::CreateRenewLease(builder, builder.CreateVector(std::vector(count, text)))
             .Union();
       }},
      {wire::Body::OfferMesh,
       [](Builder& builder, auto text, auto count) {
         return wire::CreateOfferMesh(builder, text, builder.CreateVector(std::vector(count, text)))
             .Union();
       }},
      {wire::Body::Output,
       [](Builder& builder, auto text, auto count) {
         const auto data = builder.CreateVector(std::vector<std::uint8_t>(400'000));
         const auto chunk = wire::CreateOutputChunk(builder, 0, wire::Stream::out, data);
         return wire::CreateOutput(builder, text, builder.CreateVector(std::vector(count, chunk)))
             .Union();
       }},
  };
  for (const auto& [type, make_body] : rows) {
    INFO(wire::EnumNameBody(type));
    const auto hostile = many_references(type, make_body, 10'000, 400'000);
    REQUIRE(hostile.size() < 1024 * 1024);
    const auto refused = ControlMessage::decode(hostile);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code() == ErrorCode::too_large);
    CHECK(ControlMessage::decode(many_references(type, make_body, 2, 100)).has_value());
  }
}

TEST_CASE("dispatcher: a row is called when the sender's role is enough, and said why when not") {
  int called = 0;
  Dispatcher dispatcher;
  dispatcher.on<wire::StopProcs>(Role::operate,
                                 [&](const Request& request, const wire::StopProcs&) {
                                   called += static_cast<int>(request.head.id);
                                 });
  wire::StopProcsT stop;
  stop.mesh = "m";
  const auto bytes = encode_control({.id = 5}, std::move(stop));
  const auto control = ControlMessage::decode(bytes);
  REQUIRE(control.has_value());
  Request request;
  request.head.id = 5;
  request.envelope.mutate_role(Role::operate);
  CHECK(dispatcher.dispatch(request, **control).has_value());
  CHECK(called == 5);
  request.envelope.mutate_role(Role::proc);
  const auto refused = dispatcher.dispatch(request, **control);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == ErrorCode::unauthorised);
  CHECK(refused.error().detail() == "StopProcs needs role operator, the sender has role client");
  const auto ack = ControlMessage::decode(encode_control({}, wire::AckT()));
  REQUIRE(ack.has_value());
  CHECK(dispatcher.dispatch(request, **ack).error().code() == ErrorCode::no_such_port);
  CHECK(called == 5);
}

TEST_CASE("control: texts are cut to their limit, between characters, and say so") {
  CHECK(cut_text("short") == "short");
  CHECK(cut_text(std::string(kTextLimit, 'x')) == std::string(kTextLimit, 'x'));
  const std::string cut = cut_text(std::string(kTextLimit + 1, 'x'));
  CHECK(cut.size() == kTextLimit);
  CHECK(cut.ends_with("x... (cut)"));
  CHECK(cut_text("1234567\xc3\xa4 and more than that", 17) == "1234567... (cut)");
  CHECK(cut_text("1234567\xc3\xa4 and more than that", 18) == "1234567\xc3\xa4... (cut)");
  CHECK(cut_text(std::string(5000, '\x80'), 100).size() <= 100);
  CHECK(cut_text("abcdef", 3).size() <= 3);
}
