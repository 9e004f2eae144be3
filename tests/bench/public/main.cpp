// meshbus-bench-public: what a program gets that is written with the public libraries and nothing
// else. It is launcher and procs in one.
//     meshbus-bench-public WHAT SIZE AMOUNT
// WHAT is one of the ways below, AMOUNT round trips or milliseconds. Prints its figures, one a
// line: NAME VALUE.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <meshbus/actor.h>
#include <meshbus/client.h>
#include <meshbus/proc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace meshbus;
using Clock = std::chrono::steady_clock;
using Figures = std::map<std::string, double>;
using Microseconds = std::chrono::duration<double, std::micro>;

constexpr std::uint32_t kEcho = 1;   // answers a call with its body
constexpr std::uint32_t kCount = 2;  // counts messages
constexpr std::uint32_t kAsk = 3;    // says how many there were
constexpr std::uint32_t kEnd = 4;    // ends the proc
constexpr std::uint32_t kPages = 5;  // counts messages, and reads a byte of each page
constexpr std::chrono::seconds kAnswerLimit{60};

template <typename T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().to_string());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

double since(Clock::time_point start) {
  return Microseconds(Clock::now() - start).count();
}

/// Calls one after the other.
Figures round_trips(std::size_t count, const std::function<void()>& call) {
  for (std::size_t i = 0; i < count / 10; ++i) call();
  std::vector<double> took;
  took.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto start = Clock::now();
    call();
    took.push_back(since(start));
  }
  std::sort(took.begin(), took.end());
  const double p50 = took[count / 2], p99 = took[count * 99 / 100];
  return {{"p50_us", p50}, {"p99_us", p99}, {"p99_over_p50", p99 / p50}};
}

/// Sends for so many milliseconds, then asks how many the receiver's handler has counted: all of
/// them, or this fails.
Figures rate(std::size_t size, std::size_t milliseconds, const std::function<void()>& send,
             const std::function<std::string()>& ask) {
  const std::size_t stride = size < 16 * 1024 ? 64 : 1;
  for (std::size_t i = 0; i < stride; ++i) send();
  const auto before = std::stoull(ask());
  std::uint64_t sent = 0;
  const auto start = Clock::now();
  const auto end = start + std::chrono::milliseconds(milliseconds);
  while (Clock::now() < end) {
    for (std::size_t i = 0; i < stride; ++i) send();
    sent += stride;
  }
  const auto counted = std::stoull(ask()) - before;
  const double took = since(start);
  if (counted != sent)
    throw std::runtime_error(std::to_string(sent) + " messages were sent, " +
                             std::to_string(counted) + " counted");
  const double per_s = static_cast<double>(counted) / took * 1e6;
  return {
      {"per_s", per_s}, {"mb_per_s", per_s * static_cast<double>(size) / 1e6}, {"us", 1e6 / per_s}};
}

/// Answers a call with its body, as the port does.
struct Echo : Actor {
  Echo() {
    on("echo",
       [](ActorContext&, const ActorMessage& message) { return std::string(message.body); });
  }
};

struct Task {
  std::string what;
  std::size_t size;
  std::size_t amount;
  std::string figures;  ///< Where rank 0 writes what it measured; empty: the launcher measures.
};

/// What rank 0 measures of large bodies.
Figures measure_large(Proc& proc, const Task& task, const std::string& body) {
  const auto ask = [&] { return must(proc.call(1, kAsk, "", kAnswerLimit)); };
  if (task.what != "large-made")
    return rate(
        task.size, task.amount, [&] { must(proc.send(1, kPages, body, kAnswerLimit)); }, ask);
  const auto made =
      must(SharedBody::make(task.size, [&](char* at) { std::copy(body.begin(), body.end(), at); }));
  return rate(task.size, task.amount, [&] { must(proc.send(1, kPages, made, kAnswerLimit)); }, ask);
}

/// What rank 0 measures.
Figures measure(Proc& proc, const Task& task) {
  const std::string body(task.size, 'x');
  if (task.what.starts_with("large-")) return measure_large(proc, task, body);
  if (task.what.starts_with("proc-call"))
    return round_trips(task.amount, [&] { must(proc.call(1, kEcho, body, kAnswerLimit)); });
  if (!task.what.starts_with("proc-send")) throw std::runtime_error("there is no way " + task.what);
  return rate(
      task.size, task.amount, [&] { must(proc.send(1, kCount, body, kAnswerLimit)); },
      [&] { return must(proc.call(1, kAsk, "", kAnswerLimit)); });
}

void print(std::ostream& out, const Figures& figures) {
  for (const auto& [name, value] : figures) out << name << ' ' << value << '\n';
}

ProcProgram proc_program(const Task& task) {
  static std::atomic<std::uint64_t> counted{0};
  static std::promise<void> ended;
  ProcProgram program;
  program.on(kEcho, [](Proc&, const Incoming& call) { return std::string(call.body); });
  program.actor<Echo>("echo");
  program.on(kCount, [](Proc&, const Incoming&) {
    counted.fetch_add(1, std::memory_order_relaxed);
    return std::string();
  });
  program.on(kPages, [](Proc&, const Incoming& message) {
    std::uint64_t sum = 0;
    for (std::size_t at = 0; at < message.body.size(); at += 4096)
      sum += static_cast<unsigned char>(message.body[at]);
    if (sum != (message.body.size() + 4095) / 4096 * 'x') std::abort();
    counted.fetch_add(1, std::memory_order_relaxed);
    return std::string();
  });
  program.on(kAsk, [](Proc&, const Incoming&) { return std::to_string(counted.load()); });
  program.on(kEnd, [](Proc&, const Incoming&) {
    ended.set_value();
    return std::string();
  });
  program.main([task](Proc& proc) {
    if (proc.rank() == 0 && !task.figures.empty()) {
      std::ofstream out(task.figures);
      print(out, measure(proc, task));
      must(proc.send(1, kEnd, ""));
    } else {
      ended.get_future().wait();
    }
    return 0;
  });
  return program;
}

/// Context::send() does not wait for room: a launcher that floods tries again.
void send(Context& context, const ProcId& to, const std::string& body) {
  for (;;) {
    const auto sent = context.send(to, kCount, body);
    if (sent) return;
    if (sent.error().code() != ErrorCode::queue_full) must(sent);
    std::this_thread::yield();
  }
}

/// Calls an actor of rank 0.
Figures measure_actor(ProcMesh& mesh, const Task& task) {
  const std::string body(task.size, 'x');
  auto actors = must(mesh.spawn_actors("echo", "echo", ""));
  auto figures = round_trips(task.amount, [&] {
    for (auto& answer : must(actors.call("echo", body, kAnswerLimit))) must(std::move(answer));
  });
  must(actors.stop());
  return figures;
}

/// What the launcher measures, of rank 0.
Figures measure(Context& context, ProcMesh& mesh, const Task& task) {
  const std::string body(task.size, 'x');
  const ProcId to = must(mesh.ref().proc_at(0));
  const auto ask = [&] { return must(context.call(to, kAsk, "", kAnswerLimit)); };
  auto figures =
      task.what == "context-actor" ? measure_actor(mesh, task)
      : task.what == "context-call"
          ? round_trips(task.amount, [&] { must(context.call(to, kEcho, body, kAnswerLimit)); })
          : rate(task.size, task.amount, [&] { send(context, to, body); }, ask);
  must(context.send(to, kEnd, ""));
  return figures;
}

/// `meshbus host` on a tcp port of this machine, for as long as this lives.
class StandingHost {
 public:
  explicit StandingHost(const std::string& program) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::execl(program.c_str(), "meshbus", "host", "--bind", "tcp:127.0.0.1:0", "--insecure",
              nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    char byte = 0;
    std::string line;
    while (::read(ends[0], &byte, 1) == 1 && byte != '\n') line += byte;
    ::close(ends[0]);
    const auto begin = line.find("tcp:");
    if (begin == std::string::npos) throw std::runtime_error("no host on tcp: " + line);
    address_ = line.substr(begin, line.find('"', begin) - begin);
  }
  ~StandingHost() {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
  StandingHost(const StandingHost&) = delete;
  StandingHost& operator=(const StandingHost&) = delete;
  HostAddr address() const { return must(HostAddr::parse(address_)); }

 private:
  pid_t pid_ = 0;
  std::string address_;
};

/// One host that this process starts; or, `far`, two that are linked over tcp.
class Hosts {
 public:
  Hosts(Context& context, const std::string& program, bool far)
      : standing_(far ? 2 : 0),
        mesh_(far ? attach(context, program)
                  : must(HostMesh::process(context, must(Extent::parse("host=1")),
                                           {.program = program}))) {}
  HostMesh* operator->() { return &mesh_; }
  /// Ends those that this process has started.
  void end() {
    if (standing_.empty()) must(mesh_.shutdown(kAnswerLimit));
  }

 private:
  HostMesh attach(Context& context, const std::string& program) {
    std::vector<HostAddr> addresses;
    for (auto& host : standing_) {
      host = std::make_unique<StandingHost>(program);
      addresses.push_back(host->address());
    }
    return must(HostMesh::attach(context, "bench", std::move(addresses)));
  }

  std::vector<std::unique_ptr<StandingHost>> standing_;
  HostMesh mesh_;
};

/// Hosts on this machine, and one proc or two on them.
void launch(Task task) {
  const bool is_launchers = task.what.starts_with("context-");
  auto folder = (std::filesystem::temp_directory_path() / "meshbus-bench-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no temporary folder");
  ::setenv("XDG_RUNTIME_DIR", folder.c_str(), 1);
  if (task.what.ends_with("-broker")) ::setenv("MESHBUS_DIRECT_PATHS", "false", 1);
  if (!is_launchers) task.figures = folder + "/figures";
  const auto own = std::filesystem::read_symlink("/proc/self/exe");
  {
    auto context = must(Context::create());
    const auto program = (own.parent_path() / "meshbus").string();
    Hosts hosts(context, program, task.what.ends_with("-far"));
    auto mesh = must(hosts->spawn_n("bench", is_launchers ? 1 : 2,
                                    {.kind = ProcKind::mesh,
                                     .command = {own.string(), task.what, std::to_string(task.size),
                                                 std::to_string(task.amount), task.figures}}));
    if (is_launchers) print(std::cout, measure(context, mesh, task));
    must(mesh.wait(kAnswerLimit));
    hosts.end();
  }
  if (!is_launchers) std::cout << std::ifstream(task.figures).rdbuf();
  std::filesystem::remove_all(folder);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4)
    throw std::runtime_error(
        "proc-call|proc-call-broker|proc-call-far|proc-send|proc-send-broker|context-call|"
        "context-actor|context-send|large-made|large-copied|large-far SIZE AMOUNT");
  const Task task{argv[1], std::stoul(argv[2]), std::stoul(argv[3]), argc > 4 ? argv[4] : ""};
  const auto as_proc = bootstrap(proc_program(task));
  if (as_proc.error().code() != ErrorCode::not_exist) must(as_proc);
  launch(task);
  return 0;
} catch (const std::exception& error) {
  std::cerr << "meshbus-bench-public: " << error.what() << std::endl;
  return 1;
}
