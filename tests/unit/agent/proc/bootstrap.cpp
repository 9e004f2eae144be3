#include "agent/proc/runtime/bootstrap.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <random>
#include <string>

#include "wire/bootstrap_generated.h"

using namespace meshbus;
using namespace meshbus::mesh_proc;

namespace {

constexpr int kAllSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/// Rank 5 of 2 hosts with 4 ranks each.
wire::BootstrapT good() {
  wire::BootstrapT bootstrap;
  auto self = std::make_unique<wire::BootstrapProcT>();
  self->proc = "tcp:h2:7420,trainers_5-13Se1Maqzryj";
  self->incarnation = 77;
  self->token = {1, 2, 3};
  bootstrap.procs.push_back(std::move(self));
  bootstrap.broker = "ipc:///run/broker";
  bootstrap.host = "tcp:h2:7420";
  bootstrap.mesh = "trainers-13Se1Maqzryj";
  bootstrap.region = std::make_unique<wire::RegionT>();
  bootstrap.region->labels = {"host", "gpu"};
  bootstrap.region->sizes = {2, 4};
  bootstrap.region->strides = {4, 1};
  bootstrap.hosts = {"tcp:h1:7420", "tcp:h2:7420"};
  bootstrap.rank = 5;
  bootstrap.away_ms = 1234;
  auto entry = std::make_unique<wire::KeyValueT>();
  entry->key = "terminate.grace";
  entry->value = "3s";
  bootstrap.config.push_back(std::move(entry));
  return bootstrap;
}

std::string pack(const wire::BootstrapT& bootstrap) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::Bootstrap::Pack(builder, &bootstrap));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

Error decode_error(const std::function<void(wire::BootstrapT&)>& spoil) {
  auto bootstrap = good();
  spoil(bootstrap);
  const auto decoded = decode_bootstrap(pack(bootstrap));
  REQUIRE_FALSE(decoded.has_value());
  return decoded.error();
}

UniqueFd memory(const std::string& bytes, int seals = kAllSeals) {
  UniqueFd fd(::memfd_create("bootstrap", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  if (seals != 0) REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
  return fd;
}

std::uint64_t inode_of(int fd) {
  struct stat status{};
  REQUIRE(::fstat(fd, &status) == 0);
  return status.st_ino;
}

std::string variable(int fd, pid_t pid, std::uint64_t inode) {
  return std::to_string(fd) + ":" + std::to_string(pid) + ":" + std::to_string(inode);
}

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

}  // namespace

TEST_CASE("proc_bootstrap: a good one says who this proc is") {
  const auto bootstrap = decode_bootstrap(pack(good()));
  REQUIRE(bootstrap.has_value());
  CHECK(bootstrap->proc.to_string() == "tcp:h2:7420,trainers_5-13Se1Maqzryj");
  CHECK(bootstrap->incarnation == 77);
  CHECK(bootstrap->token == std::vector<std::uint8_t>{1, 2, 3});
  CHECK(bootstrap->broker == "ipc:///run/broker");
  CHECK(bootstrap->host.to_string() == "tcp:h2:7420");
  CHECK(bootstrap->mesh.to_string() ==
        "trainers-13Se1Maqzryj[8]:tcp:h1:7420,tcp:h2:7420@host=2/4,gpu=4/1");
  CHECK(bootstrap->rank == 5);
  CHECK(bootstrap->away == std::chrono::milliseconds(1234));
  CHECK(bootstrap->heartbeat == std::chrono::seconds(5));  // not given: the default
  REQUIRE(bootstrap->config.size() == 1);
  CHECK(bootstrap->config[0] == std::pair<std::string, std::string>("terminate.grace", "3s"));
}

TEST_CASE("proc_bootstrap: of several procs of one process each has its own") {
  auto several = good();
  for (const std::uint64_t rank : {6U, 7U}) {
    auto proc = std::make_unique<wire::BootstrapProcT>();
    proc->proc = "tcp:h2:7420,trainers_" + std::to_string(rank) + "-13Se1Maqzryj";
    proc->incarnation = 100 + rank;
    proc->token = {static_cast<std::uint8_t>(rank)};
    proc->rank = rank;
    several.procs.push_back(std::move(proc));
  }
  const auto bootstrap = decode_bootstrap(pack(several));
  REQUIRE(bootstrap.has_value());
  const auto last = bootstrap->at(2);
  REQUIRE(last.has_value());
  CHECK(last->proc.to_string() == "tcp:h2:7420,trainers_7-13Se1Maqzryj");
  CHECK(last->rank == 7);
  CHECK(last->incarnation == 107);
  CHECK(last->token == std::vector<std::uint8_t>{7});
  CHECK(last->others.empty());
  CHECK(bootstrap->at(0)->rank == 5);
  CHECK(bootstrap->at(3).error().code() == ErrorCode::out_of_range);
  several.procs[2]->rank = 6;
  CHECK(decode_bootstrap(pack(several)).error().code() == ErrorCode::identity_mismatch);
}

TEST_CASE(
    "proc_bootstrap: the socket of several procs is taken over; what is none is an error in words, "
    "and is left open") {
  auto fd = memory(pack(good()));
  const auto text = variable(fd.get(), ::getpid(), inode_of(fd.get()));
  CHECK_FALSE(open_link(text)->operator bool());
  int ends[2] = {-1, -1};
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
  const UniqueFd other(ends[1]);
  const auto link = open_link(text + ":" + std::to_string(ends[0]));
  REQUIRE(link.has_value());
  CHECK(link->get() == ends[0]);
  CHECK((::fcntl(ends[0], F_GETFD) & FD_CLOEXEC) != 0);
  const auto none = open_link(text + ":" + std::to_string(fd.get()));
  REQUIRE_FALSE(none.has_value());
  CHECK(none.error().detail().find("wrapper that leaves descriptors open") != std::string::npos);
  CHECK(is_open(fd.get()));
  CHECK(load_bootstrap(text + ":" + std::to_string(ends[0])).has_value());
  (void)fd.release();
}

TEST_CASE("proc_bootstrap: bytes that are no bootstrap are refused, whatever they are") {
  const auto bytes = pack(good());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto decoded = decode_bootstrap(std::string_view(bytes).substr(0, size));
    REQUIRE_FALSE(decoded.has_value());
    CHECK(decoded.error().code() == ErrorCode::malformed_message);
  }
  // Changed bytes may still be a bootstrap; they must not do harm.
  std::mt19937 random(7);
  for (int round = 0; round < 5000; ++round) {
    auto changed = bytes;
    for (int i = 0; i < 3; ++i) changed[random() % changed.size()] = static_cast<char>(random());
    if (const auto decoded = decode_bootstrap(changed))
      CHECK(decoded->mesh.num_ranks() > decoded->rank);
  }
}

TEST_CASE("proc_bootstrap: what does not fit together is refused in words") {
  CHECK(decode_error([](auto& b) { b.procs.clear(); }).code() == ErrorCode::malformed_message);
  CHECK(decode_error([](auto& b) { b.procs[0]->proc = "nonsense"; }).code() ==
        ErrorCode::parse_error);
  CHECK(decode_error([](auto& b) { b.host = "tcp:"; }).code() == ErrorCode::parse_error);
  CHECK(decode_error([](auto& b) { b.hosts[1] = "x"; }).code() == ErrorCode::parse_error);
  CHECK(decode_error([](auto& b) { b.hosts.clear(); }).code() == ErrorCode::configuration_error);
  CHECK(decode_error([](auto& b) { b.region->strides = {4}; }).code() ==
        ErrorCode::configuration_error);
  CHECK(decode_error([](auto& b) { b.region->strides = {0, 0}; }).code() ==
        ErrorCode::configuration_error);
  CHECK(decode_error([](auto& b) { b.rank = 8; }).code() == ErrorCode::out_of_range);
  const auto wrong_rank = decode_error([](auto& b) { b.rank = 6; });
  CHECK(wrong_rank.code() == ErrorCode::identity_mismatch);
  CHECK(wrong_rank.detail() ==
        "this proc is tcp:h2:7420,trainers_5-13Se1Maqzryj on tcp:h2:7420, but rank 6 of its mesh "
        "is tcp:h2:7420,trainers_6-13Se1Maqzryj");
  CHECK(decode_error([](auto& b) { b.host = "tcp:h1:7420"; }).code() ==
        ErrorCode::identity_mismatch);
}

TEST_CASE("proc_bootstrap: reads its own descriptor, and closes it") {
  auto fd = memory(pack(good()));
  const int number = fd.release();
  // The pid does not matter then: a wrapper that executes the program passes the descriptor on.
  const auto bootstrap = load_bootstrap(variable(number, 1, inode_of(number)));
  REQUIRE_MESSAGE(bootstrap.has_value(), bootstrap.error().to_string());
  CHECK(bootstrap->rank == 5);
  CHECK_FALSE(is_open(number));
}

TEST_CASE("proc_bootstrap: what another program has opened under that number is left alone") {
  auto fd = memory(pack(good()));
  auto other = memory("somebody else's");
  const auto loaded = load_bootstrap(variable(other.get(), ::getpid(), inode_of(fd.get())));
  REQUIRE_FALSE(loaded.has_value());
  CHECK(loaded.error().code() == ErrorCode::configuration_error);
  CHECK(loaded.error().detail().find("nor /proc/") != std::string::npos);
  CHECK(is_open(other.get()));
}

TEST_CASE("proc_bootstrap: memory that is not sealed is refused") {
  for (const int seals : {0, F_SEAL_WRITE, F_SEAL_GROW | F_SEAL_SHRINK}) {
    auto fd = memory(pack(good()), seals);
    const auto loaded = load_bootstrap(variable(fd.get(), ::getpid(), inode_of(fd.get())));
    REQUIRE_FALSE(loaded.has_value());
    CHECK(loaded.error().detail().find("not sealed memory") != std::string::npos);
    CHECK(is_open(fd.get()));
  }
}

TEST_CASE("proc_bootstrap: a malformed variable is refused in words") {
  for (const char* text :
       {"", "3", "3:4", "3:4:", ":4:5", "-1:4:5", "3:0:5", "3:-4:5", "3:4:5:6:7:8", "3:4:5:x",
        "3:4:5 ", "99999999999999:4:5", "a:b:c", "3:4:-5"}) {
    CAPTURE(text);
    const auto loaded = load_bootstrap(text);
    REQUIRE_FALSE(loaded.has_value());
    CHECK(loaded.error().code() == ErrorCode::configuration_error);
    CHECK(loaded.error().detail().starts_with(
        "cannot read the bootstrap of this mesh proc, MESHBUS_BOOTSTRAP=" + std::string(text)));
    CHECK(loaded.error().detail().find(
              "expected DESCRIPTOR:PID:INODE; start the program with `meshbus run --mesh`") !=
          std::string::npos);
  }
}

TEST_CASE(
    "proc_bootstrap: a proc of another user finds its broker by a folder that it was given; what "
    "is none is an error in words") {
  auto fd = memory(pack(good()));
  const auto text = variable(fd.get(), ::getpid(), inode_of(fd.get()));
  CHECK(find_broker_by_folder(text)->empty());
  CHECK(find_broker_by_folder(text + ":7")->empty());
  const UniqueFd folder(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  REQUIRE(::fcntl(folder.get(), F_SETFD, 0) == 0);  // as its keeper leaves it
  const std::string number = std::to_string(folder.get());
  for (const std::string& whole : {text + ":-1:" + number, text + ":7:" + number}) {
    CAPTURE(whole);
    CHECK(*find_broker_by_folder(whole) == "ipc:///proc/self/fd/" + number + "/bus");
  }
  CHECK((::fcntl(folder.get(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK_FALSE(open_link(text + ":-1:" + number)->operator bool());
  const auto none = find_broker_by_folder(text + ":-1:" + std::to_string(fd.get()));
  REQUIRE_FALSE(none.has_value());
  CHECK(none.error().detail().find("wrapper that leaves descriptors open") != std::string::npos);
  for (const char* bad : {":-1", ":-2:5", ":-1:-1", ":-1:", ":-1:5:6"})
    CHECK_FALSE(load_bootstrap(text + bad).has_value());
  CHECK(load_bootstrap(text + ":-1:" + number)->broker.ends_with(number + "/bus"));
  (void)fd.release();
}
