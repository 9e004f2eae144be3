// `meshbus logs`, and output through the death of a broker.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <random>

#include "common/base/unique_fd.h"
#include "tests/support/sanitizer_scale.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using nlohmann::json;

namespace {

/// A run whose ranks execute a script on a standing host.
Process run_on(const StandingHost& host, const std::string& name, int ranks,
               const std::string& script) {
  return Process(cli({"run", "--hosts", host.address(), "-n", std::to_string(ranks), "--keep-going",
                      "--name", name, "--", "sh", "-c", script}));
}

Finished logs(const StandingHost& host, const Words& words) {
  Words all = {"logs", "--hosts", host.address()};
  all.insert(all.end(), words.begin(), words.end());
  return run_cli(all);
}

std::string numbers(int from, int to) {
  std::string text;
  for (int i = from; i < to; ++i) text += std::to_string(i) + "\n";
  return text;
}

/// A line of /proc/PID/status in KiB.
std::uint64_t memory_of(pid_t pid, const std::string& what) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(what + ":")) return std::stoull(line.substr(what.size() + 1));
  }
  return 0;
}

/// The numbers of "0-2,7".
std::vector<int> ranks_of(const std::string& text) {
  std::vector<int> found;
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::size_t length = 0;
    const int first = std::stoi(text.substr(at), &length);
    at += length;
    int last = first;
    if (at < text.size() && text[at] == '-') {
      last = std::stoi(text.substr(at + 1), &length);
      at += length + 1;
    }
    for (int rank = first; rank <= last; ++rank) found.push_back(rank);
  }
  return found;
}

/// Bytes of a stream in the files of a host, the oldest first.
std::string logged(const std::filesystem::path& path) {
  std::map<std::string, std::filesystem::path> aside;
  for (const auto& entry : std::filesystem::directory_iterator(path.parent_path())) {
    if (entry.path().string().starts_with(path.string() + ".")) aside[entry.path()] = entry.path();
  }
  aside["~"] = path;  // after all digits
  std::string all;
  for (const auto& [name, one] : aside) {
    all += read_file(one);
  }
  return all;
}

}  // namespace

TEST_CASE(
    "cli: logs shows what ranks wrote, while they live and when they have ended, with the prefixes "
    "of run") {
  StandingHost host;
  const std::string sleep = own_sleep();
  Process launcher =
      run_on(host, "train", 2, "echo hello $RANK; echo oops >&2; printf 'not yet'; exec " + sleep);
  const std::string expected =
      "[train/0 host=0,proc=0] hello 0\n[train/0 host=0,proc=0] not yet\n[train/1 host=0,proc=1] "
      "hello 1\n[train/1 host=0,proc=1] not "
      "yet\n";
  const auto shown = [&](const Words& words) {
    const auto finished = logs(host, words);
    INFO(finished.err);
    CHECK(finished.status == ExitStatus::exited(0));
    return finished;
  };
  CHECK(wait_until(
      [&] { return sorted(lines_of(logs(host, {"train", "--stdout"}).out)) == lines_of(expected); },
      in_time));
  const auto both = shown({"train"});
  CHECK(both.err == "[train/0 host=0,proc=0] oops\n[train/1 host=0,proc=1] oops\n");
  CHECK(shown({"--stderr", "--rank", "1"}).err == "[train/1 host=0,proc=1] oops\n");
  CHECK(shown({"--stderr", "--rank", "1"}).out == "");
  CHECK(shown({"train", "--tail", "1", "--stdout", "--rank", "0"}).out ==
        "[train/0 host=0,proc=0] not yet\n");
  CHECK(shown({"train", "--tail", "0"}).out == "");
  CHECK(shown({"train", "--raw", "--rank", "1"}).out == "hello 1\nnot yet");
  CHECK(shown({"train", "--fold"}).out.find("[0-1] not yet\n") != std::string::npos);
  const auto first =
      parse_json(lines_of(shown({"train", "--json", "--stdout", "--rank", "1"}).out).at(0));
  CHECK(first.at("mesh").get<std::string>().starts_with("train-"));
  CHECK(first.at("rank") == 1);
  CHECK(first.at("stream") == "stdout");
  CHECK(first.at("offset") == 0);
  CHECK(first.at("missed") == 0);
  CHECK(first.at("line") == "hello 1");
  launcher.send_signal(SIGINT);
  CHECK(launcher.wait_exit(in_time) == ExitStatus::exited(130));
  CHECK(sorted(lines_of(shown({"train", "--stdout"}).out)) == lines_of(expected));
  CHECK(shown({"-f", "train", "--stderr"}).err == both.err);  // ended: there is nothing to wait for
}

TEST_CASE("cli: logs shows the former lives of a restarted rank, too (spec 8.9)") {
  StandingHost host;
  const TempDir dir;
  const std::string sleep = own_sleep();
  Process launcher(cli({"run", "--hosts", host.address(), "--name", "again", "--restart",
                        "on-failure:3", "--restart-delay", "10ms:10ms", "--", "sh", "-c",
                        "echo life $MESHBUS_RESTARTS; if [ $MESHBUS_RESTARTS -lt 2 ]; then echo "
                        "oops $MESHBUS_RESTARTS >&2; exit 3; fi; touch " +
                            (dir / "up") + "; exec " + sleep}));
  REQUIRE(wait_until([&] { return std::filesystem::exists(dir / "up"); }, in_time));
  const auto shown = logs(host, {"again", "--raw"});
  CHECK(shown.out == "life 0\nlife 1\nlife 2\n");
  CHECK(shown.err == "oops 0\noops 1\n");
  CHECK(logs(host, {"again", "--raw", "--stdout", "--tail", "2"}).out == "life 1\nlife 2\n");
  launcher.send_signal(SIGINT);
  CHECK(launcher.wait_exit(in_time) == ExitStatus::exited(130));
}

TEST_CASE("cli: logs says what is not there, and what may have been meant") {
  StandingHost host;
  const auto none = logs(host, {});
  CHECK(none.status == ExitStatus::exited(1));
  CHECK(none.err.find("no mesh") != std::string::npos);
  CHECK(run_cli({"run", "--hosts", host.address(), "-n", "3", "--name", "trainers", "--", "true"})
            .status == ExitStatus::exited(0));
  const auto typo = logs(host, {"trainer"});
  CHECK(typo.status == ExitStatus::exited(1));
  CHECK(typo.err.find("did you mean 'trainers'?") != std::string::npos);
  const auto rank = logs(host, {"trainers", "--rank", "1,5-6"});
  CHECK(rank.status == ExitStatus::exited(1));
  CHECK(rank.err.find("has no rank 5; its ranks are 0-2") != std::string::npos);
  CHECK(run_cli({"run", "--hosts", host.address(), "--name", "trainers", "--", "true"}).status ==
        ExitStatus::exited(0));
  const auto two = logs(host, {"trainers"});
  CHECK(two.status == ExitStatus::exited(1));
  CHECK(two.err.find("2 meshes") != std::string::npos);
  for (const char* wrong : {"x", "3-1", "1,,2", "-1", ""})
    CHECK(logs(host, {"--rank", wrong}).status == ExitStatus::exited(2));
  CHECK(logs(host, {"--tail", "some"}).status == ExitStatus::exited(2));
  CHECK(logs(host, {"--raw", "--fold"}).status == ExitStatus::exited(2));
  const auto flag = logs(host, {"--tial", "3"});
  CHECK(flag.status == ExitStatus::exited(2));
  CHECK(flag.err.find("did you mean --tail?") != std::string::npos);
}

TEST_CASE(
    "cli: logs --fold brings the same lines of many ranks together, and keeps the order of each") {
  StandingHost host;
  const auto done =
      run_cli({"run", "--hosts", host.address(), "-n", "8", "--name", "many", "--", "sh", "-c",
               "echo start; if [ $RANK = 6 ]; then echo special; else echo usual; fi; echo rank "
               "$RANK; echo end"});
  CHECK(done.status == ExitStatus::exited(0));
  const auto folded = logs(host, {"many", "--fold"});
  CHECK(folded.status == ExitStatus::exited(0));
  Words lines = lines_of(folded.out);
  CHECK(std::count(lines.begin(), lines.end(), "[0-7] start") == 1);
  CHECK(std::count(lines.begin(), lines.end(), "[0-5,7] usual") == 1);
  CHECK(std::count(lines.begin(), lines.end(), "[6] special") == 1);
  CHECK(lines.size() == 12);
  const auto in_json = logs(host, {"many", "--fold", "--json"});
  CHECK(parse_json(lines_of(in_json.out).at(0)) ==
        json({{"mesh", parse_json(lines_of(in_json.out).at(0)).at("mesh")},
              {"ranks", "0-7"},
              {"stream", "stdout"},
              {"line", "start"}}));
}

TEST_CASE(
    "cli: logs -f goes on until the ranks have ended; a long line is cut and marked, but not with "
    "--raw") {
  StandingHost host;
  const TempDir dir;
  Process launcher = run_on(host, "long", 1,
                            "echo begin; until [ -e " + (dir / "go") +
                                " ]; do sleep 0.02; done; head -c 70000 /dev/zero | tr '\\0' x; "
                                "echo; printf 'last\\0\\377'");
  REQUIRE(wait_until([&] { return logs(host, {"long"}).out.find("begin") != std::string::npos; },
                     in_time));
  Process lines(cli({"logs", "-f", "--hosts", host.address(), "long"}));
  Process raw(cli({"logs", "-f", "--raw", "--hosts", host.address(), "long"}));
  Process folded(cli({"logs", "-f", "--fold", "--hosts", host.address(), "long"}));
  lines.wait_for_output("begin\n", in_time);
  raw.wait_for_output("begin\n", in_time);
  folded.wait_for_output("[0] begin\n", in_time);
  CHECK(lines.is_running());
  dir.write("go", "");
  CHECK(lines.wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(raw.wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(folded.wait_exit(in_time) == ExitStatus::exited(0));
  const std::string prefix = "[long/0 host=0,proc=0] ";
  CHECK((lines.out() == prefix + "begin\n" + prefix + std::string(65536, 'x') +
                            "[4464 bytes cut]\n" + prefix + std::string("last\0\xff\n", 7)));
  CHECK((raw.out() == "begin\n" + std::string(70000, 'x') + "\n" + std::string("last\0\xff", 6)));
  CHECK(launcher.wait_exit(in_time) == ExitStatus::exited(0));
}

TEST_CASE("cli: logs -f ends at Ctrl-C, and when nobody reads it any more") {
  StandingHost host;
  Process launcher = run_on(host, "busy", 2, "while :; do echo line; sleep 0.01; done");
  REQUIRE(wait_until([&] { return logs(host, {"busy"}).out.find("line") != std::string::npos; },
                     in_time));
  Process reader(cli({"logs", "-f", "--hosts", host.address()}));
  reader.wait_for_output("line\n", in_time);
  reader.send_signal(SIGINT);
  CHECK(reader.wait_exit(5s) == ExitStatus::exited(130));
  CHECK(reader.err() == "");
  const auto piped = run(
      {"bash", "-c",
       bin("meshbus") + " logs -f --hosts " + host.address() + " | head -1; echo ${PIPESTATUS[0]}"},
      in_time);
  CHECK(piped.out.ends_with("line\n141\n"));
  CHECK(piped.err == "");
  launcher.send_signal(SIGINT);
  CHECK(launcher.wait_exit(in_time) == ExitStatus::exited(130));
}

TEST_CASE(
    "cli: 64 ranks of mixed, binary, unterminated lines: byte-exact files, bounded memory, a stuck "
    "reader stalls nobody") {
  // MESHBUS_TEST_LOG_MB: megabytes per rank.
  const char* const wanted = std::getenv("MESHBUS_TEST_LOG_MB");
  const std::size_t size = (wanted == nullptr ? 2 : std::stoul(wanted)) * 1'000'000;
  constexpr int ranks = 64;
  const TempDir dir;
  std::minstd_rand random(64);
  std::string base(size, '\0');
  for (std::size_t i = 0; i < size; ++i)
    base[i] = random() % (i < size / 2 ? 60 : 9000) == 0 ? '\n' : static_cast<char>(random() >> 8);
  base.back() = 'x';
  dir.write("base", base);
  const std::size_t step = size / (ranks + 1);
  StandingHost host({"--set", "logs.directory=" + (dir / "logs"), "--set", "logs.size=1MiB",
                     "--set", "logs.files=1000"},
                    {.environment = {{"ASAN_OPTIONS", "quarantine_size_mb=1"}}});
  const pid_t agent = host.roles().agent;
  const auto before = memory_of(agent, "VmRSS");
  // Each writes all of it, from another byte on, and begins again at the front.
  const std::string begin = "$((RANK*" + std::to_string(step) + ")) " + (dir / "base");
  // A process that reads from a pipe without a writer waits, which costs nothing.
  REQUIRE(::mkfifo((dir / "go").c_str(), 0600) == 0);
  const std::string script = "echo ready; : <" + (dir / "go") + "; tail -c +$((RANK*" +
                             std::to_string(step) + "+1)) " + (dir / "base") + "; head -c " +
                             begin + "; head -c " + begin +
                             " | head -c 50000 >&2; [ $RANK != 0 ] || echo same; exit 0";
  std::string line = "exec";
  for (const std::string& word : cli({"run", "--hosts", host.address(), "-n", std::to_string(ranks),
                                      "--name", "big", "--no-prefix", "--", "sh", "-c", script}))
    line += " '" + word + "'";
  Process launcher({"sh", "-c", line + " >/dev/null 2>&1"});
  std::string seen;
  const auto is_up = [&] {
    seen = logs(host, {"big", "--stdout"}).out;
    return lines_of(seen).size() == ranks;
  };
  const bool are_up = wait_until(is_up, in_time);
  INFO(seen << launcher.describe());
  REQUIRE(are_up);
  Process stuck(cli({"logs", "-f", "--raw", "--tail", "all", "--hosts", host.address(), "big"}));
  Process good({"sh", "-c",
                "exec " + bin("meshbus") + " logs -f --raw --stdout --tail all --rank 5 --hosts " +
                    host.address() + " big >" + (dir / "five")});
  REQUIRE(wait_until([&] { return stuck.out().size() == ranks * 6; }, in_time));
  stuck.send_signal(SIGSTOP);
  const auto start = std::chrono::steady_clock::now();
  const meshbus::UniqueFd go(::open((dir / "go").c_str(), O_RDWR | O_CLOEXEC));
  const auto long_time = in_time * std::max<std::size_t>(3, size / 4'000'000);
  CHECK(launcher.wait_exit(long_time) == ExitStatus::exited(0));
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - start);
  CHECK(good.wait_exit(long_time) == ExitStatus::exited(0));
  const auto peak = memory_of(agent, "VmHWM");
  MESSAGE("64 ranks x ", size / 1'000'000, " MB in ", took.count(), " ms; agent: ", before,
          " KiB before, at most ", peak, " KiB");
  // 288 KiB a proc (docs/decisions/0003), and what the allocator and the sanitizer add.
  CHECK(peak < before + 48 * 1024 * memory_scale);

  const auto mesh = mesh_folder_in(dir / "logs");
  const auto out_of = [&](std::size_t rank) {
    return "ready\n" + base.substr(rank * step) + base.substr(0, rank * step) +
           (rank == 0 ? "same\n" : "");
  };
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    CAPTURE(rank);
    const std::string out = out_of(rank);
    const std::string err = base.substr(0, std::min<std::size_t>(rank * step, 50000));
    CHECK((logged(mesh / (std::to_string(rank) + ".out")) == out));
    CHECK((logged(mesh / (std::to_string(rank) + ".err")) == err));
  }
  CHECK((read_file(dir / "five") == out_of(5)));
  // Folded: rank by rank the same lines as without.
  const auto plain = logs(host, {"big", "--json", "--stdout", "--tail", "20"});
  const auto folded = logs(host, {"big", "--json", "--stdout", "--tail", "20", "--fold"});
  std::map<int, Words> one, other;
  for (const auto& text : lines_of(plain.out)) {
    const auto row = parse_json(text);
    one[row.at("rank").get<int>()].push_back(row.at("line"));
  }
  for (const auto& text : lines_of(folded.out)) {
    const auto row = parse_json(text);
    for (const int rank : ranks_of(row.at("ranks"))) other[rank].push_back(row.at("line"));
  }
  CHECK(one.size() == ranks);
  for (const auto& [rank, words] : one) {
    CAPTURE(rank);
    CHECK(words.size() == 20);
    CHECK((words == other[rank]));
  }
  stuck.send_signal(SIGKILL);
}

TEST_CASE("cli: a run loses no output when its broker is killed, again and again") {
  StandingHost host;
  const TempDir dir;
  std::string line = "exec";
  for (const std::string& word :
       cli({"run", "--hosts", host.address(), "-n", "3", "--name", "p", "--", "sh", "-c",
            "i=0; while [ $i -lt 4000 ]; do echo $i; i=$((i+1)); [ $((i % 40)) != 0 ] || sleep "
            "0.02; done"}))
    line += " '" + word + "'";
  Process launcher({"sh", "-c", line + " >" + (dir / "out")});
  const auto written = [&] { return read_file(dir / "out"); };
  std::size_t seen = 0;
  for (int round = 0; round < 3; ++round) {
    REQUIRE(wait_until([&] { return written().size() > seen + 10'000; }, in_time));
    seen = written().size();
    const auto roles = find_roles(host.process().pid());
    REQUIRE(roles);
    ::kill(roles->broker, SIGKILL);
    const auto is_back = [&] {
      const auto now = find_roles(host.process().pid());
      return now && now->broker != roles->broker;
    };
    REQUIRE(wait_until(is_back, in_time));
  }
  CHECK(launcher.wait_exit(in_time) == ExitStatus::exited(0));
  std::array<std::string, 3> by_rank;
  for (const std::string& text : lines_of(written())) {
    int rank = 0, number = 0;
    REQUIRE(std::sscanf(text.c_str(), "[p/%*d host=0,proc=%d] %d", &rank, &number) == 2);
    by_rank.at(static_cast<std::size_t>(rank)) += std::to_string(number) + "\n";
  }
  for (const auto& text : by_rank) CHECK((text == numbers(0, 4000)));
}
