// Bodies that another process made are mapped only when nobody can change them (spec 9.2).
#include "common/base/sealed_memory.h"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "meshbus/shared_body.h"

using namespace meshbus;

namespace {

constexpr std::size_t kSize = 3 * 1024 * 1024 + 5;
constexpr int kSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;

UniqueFd memory(int seals, std::size_t bytes = kSize, unsigned flags = MFD_ALLOW_SEALING,
                bool has_holes = false) {
  UniqueFd fd(::memfd_create("test", MFD_CLOEXEC | flags));
  REQUIRE(fd);
  REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
  if (!has_holes && bytes > 0 && (flags & MFD_HUGETLB) == 0)
    REQUIRE(::fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes)) == 0);
  REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
  return fd;
}

std::string refusal_of(int descriptor, std::size_t bytes = kSize) {
  const auto mapped = SealedMemory::map(descriptor, bytes);
  if (mapped) return "mapped";
  CHECK(mapped.error().code() == ErrorCode::io_error);
  return mapped.error().detail();
}

}  // namespace

TEST_CASE("sealed_memory: what is mapped is what was written, and outlives the descriptor") {
  const std::string text(kSize, 'x');
  const std::string_view pieces[] = {
      std::string_view(text).substr(0, 5), {}, std::string_view(text).substr(5)};
  auto copy = SealedMemory::copy(pieces);
  REQUIRE(copy.has_value());
  const auto mapped = SealedMemory::map(copy->get(), kSize);
  REQUIRE(mapped.has_value());
  copy->reset();
  CHECK(std::memcmp(mapped->get(), text.data(), kSize) == 0);
}

TEST_CASE("sealed_memory: nobody can write, shrink or grow it, or map it for writing") {
  const auto fd = SealedMemory::fill(kSize, [](char* at) { std::memset(at, 'x', kSize); });
  REQUIRE(fd.has_value());
  CHECK(::pwrite(fd->get(), "y", 1, 0) == -1);
  CHECK(errno == EPERM);
  CHECK(::ftruncate(fd->get(), 1) == -1);
  CHECK(errno == EPERM);
  CHECK(::ftruncate(fd->get(), kSize + 1) == -1);
  CHECK(errno == EPERM);
  CHECK(::mmap(nullptr, kSize, PROT_WRITE, MAP_SHARED, fd->get(), 0) == MAP_FAILED);
  CHECK(errno == EPERM);
  CHECK(::fcntl(fd->get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == -1);
}

TEST_CASE("sealed_memory: what its maker could still change is refused") {
  const std::string not_sealed = "a descriptor that is no sealed memory";
  CHECK(refusal_of(memory(0).get()) == not_sealed);
  CHECK(refusal_of(memory(F_SEAL_WRITE | F_SEAL_GROW).get()) == not_sealed);
  CHECK(refusal_of(memory(F_SEAL_SHRINK | F_SEAL_GROW).get()) == not_sealed);
  // A mapping from before could go on writing.
  CHECK(refusal_of(memory(F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW).get()) == not_sealed);
  const UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  CHECK(refusal_of(file.get()) == not_sealed);
  CHECK(refusal_of(-1) == not_sealed);
  CHECK(refusal_of(memory(kSeals).get()) == "mapped");
  CHECK(refusal_of(memory(kSeals, kSize, MFD_ALLOW_SEALING, true).get()) == "memory with holes");
  CHECK(refusal_of(memory(kSeals, kSize - 1).get()) ==
        "memory of 3145732 bytes for a body of 3145733");
  CHECK(refusal_of(memory(kSeals, 0).get(), 0) == "memory of 0 bytes for a body of 0");
  // Huge pages can be sealed, and may be missing when they are read.
  CHECK(refusal_of(memory(kSeals, 4 * 1024 * 1024, MFD_ALLOW_SEALING | MFD_HUGETLB).get(),
                   4 * 1024 * 1024) == "a descriptor of another kind of memory");
}

TEST_CASE("sealed_memory: a process that may write no large file is not ended for it") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit low{kSize - 1, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &low) == 0);
  const std::string text(kSize, 'x');
  const std::string_view whole[] = {text};
  const auto copy = SealedMemory::copy(whole);
  const auto fill = SealedMemory::fill(kSize, [](char* at) { std::memset(at, 'x', kSize); });
  const auto body = SharedBody::copy(std::string(kSize, 'x'));
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  REQUIRE_FALSE(copy.has_value());
  CHECK(copy.error().detail() ==
        "3145733 bytes of memory to share; this process may write files of 3145732 (ulimit -f)");
  CHECK_FALSE(fill.has_value());
  // It goes in plain memory then.
  CHECK(body.descriptor() == -1);
  CHECK(body.bytes().size() == kSize);
}

TEST_CASE("shared_body: one in sealed memory says so, and any other does not") {
  const auto made = SharedBody::make(kSize, [](char* at) { std::memset(at, 'x', kSize); });
  REQUIRE(made.has_value());
  CHECK((made->bytes() == std::string(kSize, 'x')));
  CHECK(made->descriptor() >= 0);
  const auto copy = SharedBody::copy(made->bytes());
  CHECK((copy.bytes() == made->bytes()));
  CHECK(copy.descriptor() >= 0);
  CHECK(copy.descriptor() != made->descriptor());
  CHECK(SharedBody::of("plain").descriptor() == -1);
  CHECK(SharedBody::copy("").bytes().empty());
  CHECK_THROWS(static_cast<void>(SharedBody::make(1, [](char*) { throw 1; })));
}
