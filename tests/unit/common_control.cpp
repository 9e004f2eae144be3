#include "common/control.h"

#include <doctest/doctest.h>

#include <random>

#include "common/dispatcher.h"

using namespace meshbus;

TEST_CASE("control: what is encoded is decoded, with its head") {
  wire::StopProcsT stop;
  stop.mesh = "trainers-13Se1Maqzryj";
  stop.ranks = {wire::RankInterval(0, 4)};
  const auto bytes = encode_control({.id = 9, .deadline_ms = 100, .is_answer = true}, std::move(stop));
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
    for (auto flips = 1 + random() % 3; flips > 0 && !bytes.empty(); --flips) bytes[random() % bytes.size()] = static_cast<char>(random());
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

TEST_CASE("dispatcher: a row is called when the sender's role is enough, and said why when not") {
  int called = 0;
  Dispatcher dispatcher;
  dispatcher.on<wire::StopProcs>(Role::operate,
                                 [&](const Request& request, const wire::StopProcs&) { called += static_cast<int>(request.head.id); });
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
  CHECK(refused.error().detail() == "StopProcs takes role operate, the sender has proc");
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
