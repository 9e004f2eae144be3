// `meshbus run`: what a user sees of a run that ends on its own (spec 12.2, 4.5).
#include <doctest/doctest.h>

#include <cstdio>

#include "tests/support/sanitizer_scale.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using nlohmann::json;

namespace {

/// The environment that each rank of a run had.
std::map<int, std::map<std::string, std::string>> environments_of(const Words& options) {
  const TempDir dir;
  Words words = {"run"};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", "sh", "-c", "env >\"$DIR/$RANK\""});
  const auto finished = run_cli(words, {.environment = {{"DIR", dir.path().string()}}});
  INFO(finished.err);
  REQUIRE(finished.status == ExitStatus::exited(0));
  std::map<int, std::map<std::string, std::string>> found;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    auto& variables = found[std::stoi(entry.path().filename().string())];
    for (const std::string& line : lines_of(read_file(entry.path())))
      variables[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
  }
  return found;
}

/// Since some day, of "2026-01-02T03:04:05.678Z".
std::chrono::milliseconds milliseconds_of(const std::string& time) {
  int year = 0, month = 0, day = 0, hours = 0, minutes = 0, seconds = 0, milliseconds = 0;
  REQUIRE(std::sscanf(time.c_str(), "%d-%d-%dT%d:%d:%d.%3dZ", &year, &month, &day, &hours, &minutes,
                      &seconds, &milliseconds) == 7);
  const std::chrono::sys_days date = std::chrono::year(year) / month / day;
  return date.time_since_epoch() + std::chrono::hours(hours) + std::chrono::minutes(minutes) +
         std::chrono::seconds(seconds) + std::chrono::milliseconds(milliseconds);
}

}  // namespace

TEST_CASE("cli: run on two hosts shows each rank's line with its place, and nothing else") {
  const auto finished = run_cli(
      {"run", "--hosts", "2", "--per-host", "gpus=2", "--", "sh", "-c", "echo $RANK/$WORLD_SIZE"});
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(sorted(lines_of(finished.out)) ==
        Words{"[sh/0 host=0,gpus=0] 0/4", "[sh/1 host=0,gpus=1] 1/4", "[sh/2 host=1,gpus=0] 2/4",
              "[sh/3 host=1,gpus=1] 3/4"});
  CHECK(finished.err == "");
  CHECK(host_directories().empty());
}

TEST_CASE("cli: run tells every rank where it is") {
  const auto ranks =
      environments_of({"--hosts", "2", "--per-host", "gpus=2,x=3", "--name", "train"});
  REQUIRE(ranks.size() == 12);
  const std::string mesh = ranks.at(0).at("MESHBUS_MESH");
  const std::string port = ranks.at(0).at("MASTER_PORT");
  CHECK(mesh.starts_with("train-"));
  CHECK(mesh.size() == 6 + 12);
  CHECK(std::stoi(port) > 1023);
  std::map<std::string, int> hosts;
  for (auto [rank, variables] : ranks) {
    CAPTURE(rank);
    const auto is = [&](const char* name, int value) {
      return variables[name] == std::to_string(value);
    };
    CHECK(is("RANK", rank));
    CHECK(is("LOCAL_RANK", rank % 6));
    CHECK(is("WORLD_SIZE", 12));
    CHECK(is("LOCAL_WORLD_SIZE", 6));
    CHECK(is("NODE_RANK", rank / 6));
    CHECK(is("MESHBUS_RANK_HOST", rank / 6));
    CHECK(is("MESHBUS_RANK_GPUS", rank % 6 / 3));
    CHECK(is("MESHBUS_RANK_X", rank % 3));
    CHECK(is("MESHBUS_SIZE_HOST", 2));
    CHECK(is("MESHBUS_SIZE_GPUS", 2));
    CHECK(is("MESHBUS_SIZE_X", 3));
    CHECK(variables["MESHBUS_MESH"] == mesh);
    CHECK(variables["MASTER_ADDR"] == "127.0.0.1");
    CHECK(variables["MASTER_PORT"] == port);
    CHECK_FALSE(variables.contains("MESHBUS_BOOTSTRAP"));
    // HOST,train_RANK-UUID
    const std::string address = variables["MESHBUS_ADDR"];
    const auto comma = address.rfind(',');
    REQUIRE(comma != std::string::npos);
    CHECK(address.substr(comma + 1) == "train_" + std::to_string(rank) + mesh.substr(5));
    CHECK(address.starts_with("unix:/"));
    ++hosts[address.substr(0, comma)];
  }
  CHECK(hosts.size() == 2);
}

TEST_CASE("cli: run -n spreads uneven blocks over the hosts") {
  const auto ranks = environments_of({"--hosts", "2", "-n", "5"});
  REQUIRE(ranks.size() == 5);
  for (auto [rank, variables] : ranks) {
    CAPTURE(rank);
    CHECK(variables["WORLD_SIZE"] == "5");
    CHECK(variables["NODE_RANK"] == (rank < 3 ? "0" : "1"));
    CHECK(variables["LOCAL_RANK"] == std::to_string(rank < 3 ? rank : rank - 3));
    CHECK(variables["LOCAL_WORLD_SIZE"] == (rank < 3 ? "3" : "2"));
    CHECK(variables["MESHBUS_RANK_PROC"] == std::to_string(rank));
    CHECK(variables["MESHBUS_SIZE_PROC"] == "5");
    CHECK_FALSE(variables.contains("MESHBUS_RANK_HOST"));
  }
}

TEST_CASE("cli: run gives ranks the launcher's environment and directory; -x wins over it") {
  const TempDir dir;
  const auto finished =
      run_cli({"run", "--no-prefix", "-x", "A", "-x", "B=from -x=1", "-x", "RANK=77", "--", "sh",
               "-c", "echo \"$A|$B|$C|$RANK|$(pwd)\""},
              {.environment = {{"A", "a"}, {"B", "b"}, {"C", "c"}}, .directory = dir.path()});
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(finished.out == "a|from -x=1|c|0|" + dir.path().string() + "\n");
}

TEST_CASE(
    "cli: a rank has nothing open but stdin, stdout and stderr, and no signal blocked or ignored") {
  const auto finished = run_cli({"run", "--no-prefix", "--", "sh", "-c",
                                 "ls /proc/self/fd; grep -E 'Sig(Blk|Ign)' /proc/self/status"});
  CHECK(finished.status == ExitStatus::exited(0));
  // 3 is the directory that ls reads.
  CHECK(finished.out == "0\n1\n2\n3\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_CASE("cli: the first failing rank gives the exit code and is named last") {
  const auto finished = run_cli({"run", "--hosts", "2", "--per-host", "gpus=1", "--", "sh", "-c",
                                 "echo some words >&2; exit $RANK"});
  CHECK(finished.status == ExitStatus::exited(1));
  const std::string last = last_line(finished.err);
  INFO(finished.err);
  CHECK(last.starts_with("meshbus: first failure: rank 1 (host=1,gpus=0 on unix:/"));
  CHECK(last.ends_with("): exit 1"));
  CHECK(finished.err.find("meshbus: | some words\n") != std::string::npos);
}

TEST_CASE("cli: of ranks that fail one shortly after the other the first one is named") {
  // The last rank fails first, and the others 5 ms later each.
  const std::string fail =
      "sleep 0.$(printf %03d $((200 - 5 * RANK))); exit "
      "$((RANK + 1))";
  for (int round = 0; round < 5; ++round) {
    const auto finished =
        run_cli({"run", "--per-host", "gpus=4", "--json", "-", "--", "sh", "-c", fail});
    INFO(finished.err, finished.out);
    const auto report = parse_json(finished.out);
    std::map<std::chrono::milliseconds, std::set<std::uint64_t>> ended;
    for (const auto& rank : report.at("ranks")) {
      if (rank.at("cause") == "failed" || rank.at("exit_code") != nullptr)
        ended[milliseconds_of(rank.at("ended").get<std::string>())].insert(
            rank.at("rank").get<std::uint64_t>());
    }
    REQUIRE_FALSE(ended.empty());
    const auto first = report.at("first_failure").get<std::uint64_t>();
    CHECK(ended.begin()->second.contains(first));
    CHECK(finished.status == ExitStatus::exited(static_cast<int>(first) + 1));
    CHECK(last_line(finished.err)
              .starts_with("meshbus: first failure: rank " + std::to_string(first) + " ("));
  }
}

TEST_CASE("cli: a rank that is killed: 128 + signal") {
  const auto finished = run_cli({"run", "--", "sh", "-c", "kill -9 $$"});
  CHECK(finished.status == ExitStatus::exited(137));
  CHECK(last_line(finished.err).find("rank 0 (host=0") != std::string::npos);
  CHECK(last_line(finished.err).find("killed by SIGKILL") != std::string::npos);
  CHECK(run_cli({"run", "--", "sh", "-c", "kill -SEGV $$"}).status == ExitStatus::exited(139));
}

TEST_CASE(
    "cli: a command that is not there: 127; one that cannot be executed: 126; both named with the "
    "host") {
  const auto missing = run_cli({"run", "--hosts", "2", "--", "/no/such/file"});
  INFO(missing.err);
  CHECK(missing.status == ExitStatus::exited(127));
  CHECK(last_line(missing.err).find("/no/such/file") != std::string::npos);
  CHECK(last_line(missing.err).find("No such file or directory") != std::string::npos);
  CHECK(last_line(missing.err).find(" on unix:/") != std::string::npos);
  CHECK(missing.out == "");

  const auto refused = run_cli({"run", "--", "/etc/passwd"});
  INFO(refused.err);
  CHECK(refused.status == ExitStatus::exited(126));
  CHECK(last_line(refused.err).find("/etc/passwd") != std::string::npos);
  CHECK(last_line(refused.err).find("Permission denied") != std::string::npos);
  CHECK(last_line(refused.err).find(" on unix:/") != std::string::npos);

  const auto unknown = run_cli({"run", "--", "no-such-program-anywhere"});
  INFO(unknown.err);
  CHECK(unknown.status == ExitStatus::exited(127));
  CHECK(last_line(unknown.err).find("no-such-program-anywhere") != std::string::npos);

  const TempDir dir;
  const std::string script = dir.write("script", "#!/no/such/interpreter\n", /*executable=*/true);
  const auto interpreter = run_cli({"run", "--", script});
  INFO(interpreter.err);
  CHECK(interpreter.err.find("/no/such/interpreter") != std::string::npos);
  CHECK((interpreter.status == ExitStatus::exited(127) ||
         interpreter.status == ExitStatus::exited(126)));
}

TEST_CASE("cli: a failure stops the other ranks; with --keep-going they end on their own") {
  const TempDir dir;
  const char* script = R"(
    echo $$ >"$DIR/.$RANK" && mv "$DIR/.$RANK" "$DIR/$RANK"
    [ $RANK = 1 ] && exit 3
    until [ -e "$DIR/go" ]; do sleep 0.02; done
    sleep 0.5  # clearly after rank 1, by any clock
    echo went on; exit 4)";
  const ProcessOptions options = {.environment = {{"DIR", dir.path().string()}}};
  const auto gang = run_cli({"run", "-n", "3", "--grace", "5s", "--", "sh", "-c", script}, options);
  INFO(gang.err);
  CHECK(gang.status == ExitStatus::exited(3));
  CHECK(gang.out == "");
  CHECK(gang.err.find("meshbus: stopped because of it: ranks 0,2\n") != std::string::npos);
  CHECK(last_line(gang.err).find("rank 1 (") != std::string::npos);

  for (const char* file : {"0", "1", "2"}) std::filesystem::remove(dir / file);
  Process keep(cli({"run", "-n", "3", "--keep-going", "--", "sh", "-c", script}), options);
  for (const char* file : {"0", "1", "2"})
    REQUIRE(wait_until([&] { return !read_file(dir / file).empty(); }, in_time));
  REQUIRE(wait_until([&] { return is_gone(std::stoi(read_file(dir / "1"))); }, in_time));
  dir.write("go", "");
  CHECK(keep.wait_exit(in_time) == ExitStatus::exited(3));
  CHECK(sorted(lines_of(keep.out())) ==
        Words{"[sh/0 host=0,proc=0] went on", "[sh/2 host=0,proc=2] went on"});
  INFO(keep.err());
  CHECK(keep.err().find("meshbus: after it failed 2 more ranks: ranks 0,2\n") != std::string::npos);
}

TEST_CASE("cli: --timeout ends the run with 124; what ignores SIGTERM goes with the grace") {
  const auto polite = run_cli({"run", "--timeout", "1s", "--", "sleep", "60"});
  INFO(polite.err);
  CHECK(polite.status == ExitStatus::exited(124));
  CHECK(polite.elapsed >= 1s);
  CHECK(polite.elapsed < 10s * slowness);

  const std::string sleep = own_sleep();
  const TempDir dir;
  const auto deaf = run_cli({"run", "--timeout", "1s", "--grace", "500ms", "--json", dir / "report",
                             "--", "sh", "-c", "trap '' TERM; exec " + sleep});
  INFO(deaf.err);
  CHECK(deaf.status == ExitStatus::exited(124));
  CHECK(deaf.elapsed >= 1500ms);
  CHECK(deaf.elapsed < 10s * slowness);
  CHECK(sleepers(sleep).empty());
  const json report = parse_json(read_file(dir / "report"));
  CHECK(report.at("exit_code") == 124);
  CHECK(report.at("ranks").at(0).at("signal") == 9);
}

TEST_CASE("cli: four hosts with 250 times /bin/true each") {
  const TempDir dir;
  const auto finished =
      run_cli({"run", "--hosts", "4", "-n", "1000", "--json", dir / "report", "--", "/bin/true"});
  INFO(finished.err);
  REQUIRE(finished.status == ExitStatus::exited(0));
  CHECK(finished.out == "");
  const json report = parse_json(read_file(dir / "report"));
  REQUIRE(report.at("ranks").size() == 1000);
  int good = 0;
  std::map<std::string, int> per_host;
  for (std::size_t rank = 0; rank < 1000; ++rank) {
    const json& one = report.at("ranks").at(rank);
    good += one.at("rank") == rank && one.at("status") == "stopped" && one.at("exit_code") == 0 &&
                    one.at("pid").is_number()
                ? 1
                : 0;
    ++per_host[one.at("host").get<std::string>()];
  }
  CHECK(good == 1000);
  CHECK(per_host.size() == 4);
  for (const auto& [host, count] : per_host) CHECK(count == 250);
  MESSAGE("4 x 250 x /bin/true: " << finished.elapsed.count() << " ms");
}
