// `meshbus call` and `meshbus cast` on a mesh that somebody else runs.
#include <csignal>

#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

TEST_CASE(
    "cli: call asks ranks of a running mesh by name, number and slice, and shows who answered "
    "what") {
  const StandingHost first, second;
  const auto both = first.address() + "," + second.address();
  auto context = must(Context::create());
  auto hosts = must(HostMesh::attach(
      context, "hosts",
      {must(HostAddr::parse(first.address())), must(HostAddr::parse(second.address()))}));
  Heard heard;
  auto mesh =
      must(hosts.spawn("echo", extent("gpu=2"),
                       {.kind = ProcKind::mesh, .command = {bin("echo_proc")}}, heard.handlers()));
  const auto call = [&](Words words) {
    words.insert(words.begin(), {"call", "--hosts", both});
    return run_cli(words);
  };
  auto done = call({"echo", "2"});
  CHECK(done.status == ExitStatus::exited(0));
  CHECK(done.out ==
        "[echo/0 host=0,gpu=0] rank 0 of 4\n[echo/1 host=0,gpu=1] rank 1 of 4\n[echo/2 "
        "host=1,gpu=0] rank 2 of 4\n[echo/3 host=1,gpu=1] "
        "rank 3 of "
        "4\n");
  CHECK(call({"echo[0,2-3]", "1", "hi", "--raw"}).out == "hihihi");
  CHECK(call({"host=1,gpu=0:1", "1", "two\nlines\n"}).out ==
        "[echo/2 host=1,gpu=0] two\n[echo/2 host=1,gpu=0] lines\n");
  CHECK(call({mesh.ref().mesh().to_string() + "[gpu=1]", "2", "--raw"}).out ==
        "rank 1 of 4rank 3 of 4");
  CHECK(call({"ecko", "2"}).err.find("did you mean 'echo'?") != std::string::npos);
  CHECK(call({"echo[4]", "2"}).err.find("has no rank 4; its ranks are 0-3") != std::string::npos);
  CHECK(call({"echo[4]", "2"}).status == ExitStatus::exited(1));
  CHECK(call({"echo[rack=1]", "2"}).status == ExitStatus::exited(2));
  CHECK(call({"echo", "two"}).err.find("'two' is no port") != std::string::npos);
  CHECK(call({"echo[", "2"}).status == ExitStatus::exited(2));

  // One is dead, and the others answer.
  REQUIRE(mesh.signal({{1, 2}}, SIGKILL).has_value());
  must(mesh.wait_for_failure(in_time));
  done = call({"echo[host=0]", "2"});
  CHECK(done.status == ExitStatus::exited(1));
  CHECK(done.out == "[echo/0 host=0,gpu=0] rank 0 of 4\n");
  INFO(done.err);
  CHECK(done.err.find("meshbus: [echo/1 host=0,gpu=1] no_such_proc: rank 1 has ended: killed by "
                      "SIGKILL") != std::string::npos);
  const auto told = parse_json(call({"echo[0-1]", "1", "hello", "--json"}).out);
  CHECK(told["mesh"] == mesh.ref().mesh().to_string());
  REQUIRE(told["answers"].size() == 2);
  CHECK(told["answers"][0]["rank"] == 0);
  CHECK(told["answers"][0]["point"] == "host=0/2,gpu=0/2");
  CHECK(told["answers"][0]["answer"] == "hello");
  CHECK(told["answers"][0]["error"].is_null());
  CHECK(told["answers"][1]["answer"].is_null());
  CHECK(told["answers"][1]["error"]["code"] == "no_such_proc");

  const auto plain = must(hosts.spawn("plain", extent("gpu=1"), {.command = {"sleep", "60"}}));
  const auto refused = call({"plain", "1", "hello"});
  CHECK(refused.status == ExitStatus::exited(1));
  CHECK(refused.err.find("consists of plain procs, which take no messages") != std::string::npos);
  must(mesh.stop());
}

TEST_CASE("cli: cast and call reach actors by name; what cast sends arrives") {
  const StandingHost host;
  auto context = must(Context::create());
  auto hosts = must(HostMesh::attach(context, "hosts", {must(HostAddr::parse(host.address()))}));
  Heard heard;
  auto mesh = must(hosts.spawn("actors", extent("gpu=3"),
                               {.kind = ProcKind::mesh, .command = {bin("meshbus_test_actors")}},
                               heard.handlers()));
  auto tally = must(mesh.spawn_actors("counter", "tally", "10"));
  const Words on{"--hosts", host.address(), "--actor", "tally"};
  const auto talk = [&](Words words, ProcessOptions options = {}) {
    words.insert(words.end(), on.begin(), on.end());
    return run_cli(words, std::move(options));
  };
  auto cast = talk({"cast", "actors[1-2]", "add", "5", "--json"});
  INFO(cast.err);
  CHECK(cast.status == ExitStatus::exited(0));
  CHECK(parse_json(cast.out)["ranks"] == 2);
  CHECK(parse_json(cast.out)["errors"].empty());
  // Another launcher's messages: no order between the two, but they come.
  CHECK(
      wait_until([&] { return talk({"call", "actors", "7", "--raw"}).out == "101515"; }, in_time));
  CHECK(talk({"call", "actors[0]", "add", "-", "--raw"}, {.input = "32"}).out == "42");
  const auto unreadable = run(
      {"sh", "-c",
       bin("meshbus") + " call actors[0] add - --actor tally --hosts " + host.address() + " </"},
      in_time);
  CHECK(unreadable.status != ExitStatus::exited(0));
  CHECK(unreadable.err.find("the body cannot be read from stdin") != std::string::npos);
  CHECK(talk({"call", "actors[0]", "nonsense"})
            .err.find("has no handler for message nonsense; it has ") != std::string::npos);

  // One value of all: 42, 15 and 15.
  CHECK(talk({"call", "actors", "7", "--reduce", "sum"}).out == "72\n");
  CHECK(talk({"call", "actors[0,2]", "7", "--reduce", "max"}).out == "42\n");
  auto reduced = parse_json(talk({"call", "actors[0,2]", "7", "--reduce", "sum", "--json"}).out);
  CHECK(reduced["mesh"] == mesh.ref().mesh().to_string());
  CHECK(reduced["reduce"] == "sum");
  CHECK(reduced["value"] == 57);
  CHECK(reduced["ranks"] == 2);
  CHECK(reduced["errors"].empty());
  CHECK(parse_json(talk({"call", "actors", "answer", "true|false|no", "--reduce", "any", "--json"})
                       .out)["value"] == true);
  CHECK(talk({"call", "actors", "7", "--reduce", "mean"}).status == ExitStatus::exited(2));
  CHECK(talk({"call", "actors", "7", "--reduce", "sum", "--raw"}).status == ExitStatus::exited(2));
  CHECK(talk({"cast", "actors", "7", "--reduce", "sum"}).status == ExitStatus::exited(2));
  CHECK(run_cli({"call", "--hosts", host.address(), "actors", "7", "--reduce", "sum"}).status ==
        ExitStatus::exited(2));
  // A rank whose answer is missing says why.
  auto done = talk({"call", "actors", "answer", "1|fail|3", "--reduce", "sum"});
  CHECK(done.status == ExitStatus::exited(1));
  CHECK(done.out == "4\n");
  CHECK(done.err.find("meshbus: [actors/1 host=0,gpu=1] call_error: ") != std::string::npos);
  reduced = parse_json(
      talk({"call", "actors[0,2]", "answer", "1|2|abc", "--reduce", "sum", "--json"}).out);
  CHECK(reduced["value"] == 1);
  REQUIRE(reduced["errors"].size() == 1);
  CHECK(reduced["errors"][0]["rank"] == 2);
  CHECK(reduced["errors"][0]["error"]["code"] == "configuration_error");
  done = talk({"call", "actors", "nonsense", "--reduce", "sum"});
  CHECK(done.status == ExitStatus::exited(1));
  CHECK(done.out.empty());

  // A cast that is not taken says where, and why.
  done = talk({"cast", "actors[1-2]", "nonsense"});
  INFO(done.err);
  CHECK(done.status == ExitStatus::exited(1));
  CHECK(done.err.find("[actors/1 host=0,gpu=1] no_such_port: ") != std::string::npos);
  CHECK(done.err.find("[actors/2 host=0,gpu=2] no_such_port: ") != std::string::npos);
  CHECK(done.err.find("has no handler for message nonsense; it has ") != std::string::npos);
  const auto plain_cast = [&](Words words) {
    words.insert(words.begin(), {"cast", "--hosts", host.address(), "actors"});
    return run_cli(words);
  };
  done = plain_cast({"--actor", "nobody", "7"});
  CHECK(done.status == ExitStatus::exited(1));
  CHECK(done.err.find(" has no actor nobody") != std::string::npos);
  const auto told = parse_json(plain_cast({"4711", "--json"}).out);
  REQUIRE(told["errors"].size() == 3);
  CHECK(told["errors"][2]["point"] == "host=0/1,gpu=2/3");
  CHECK(told["errors"][2]["error"]["code"] == "no_such_port");
  CHECK(told["errors"][2]["error"]["text"].get<std::string>().find(
            "has no handler for port 4711") != std::string::npos);
  // One has ended, and the others have it.
  REQUIRE(mesh.signal({{1, 2}}, SIGKILL).has_value());
  must(mesh.wait_for_failure(in_time));
  done = talk({"cast", "actors", "7"});
  CHECK(done.status == ExitStatus::exited(1));
  CHECK(done.err.find("meshbus: [actors/1 host=0,gpu=1] no_such_proc: rank 1 has ended: killed by "
                      "SIGKILL") != std::string::npos);
  CHECK(done.err.find("actors/2") == std::string::npos);
  must(tally.stop());
  must(mesh.stop());
}
