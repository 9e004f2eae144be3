#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include <fuzzer/FuzzedDataProvider.h>

/// What fuzz targets share. A target is one file tests/fuzz/NAME.cpp with LLVMFuzzerTestOneInput;
/// seeds, if any, are files of tests/fuzz/corpus/NAME. `./dev fuzz NAME` builds and runs it: no
/// list names it.
namespace meshbus::fuzz {

/// A promise that was broken: a finding, like a crash.
[[noreturn]] inline void broken(const char* promise, const char* file, int line,
                                std::string_view about) {
  std::fprintf(stderr, "%s:%d: broken promise: %s\n  about: \"%.*s\"\n", file, line, promise,
               static_cast<int>(about.size()), about.data());
  std::abort();
}
#define FUZZ_CHECK(promise, about)                                                \
  do {                                                                            \
    if (!(promise)) ::meshbus::fuzz::broken(#promise, __FILE__, __LINE__, about); \
  } while (false)

/// The input as text in memory that ends where it ends, so that the sanitizer sees every read too
/// far.
class ExactCopy {
 public:
  explicit ExactCopy(std::string_view text) : bytes_(new char[text.size()]), size_(text.size()) {
    if (size_ != 0) std::memcpy(bytes_.get(), text.data(), size_);
  }
  std::string_view view() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t size_;
};

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// The value that a text says, printed and read again, is the same value, and is printed the same.
/// `parse` answers a Result, `print` a string.
template <typename Parse, typename Print>
void check_print_parse(std::string_view text, Parse parse, Print print) {
  const ExactCopy copy(text);
  const auto value = parse(copy.view());
  if (!value) {
    FUZZ_CHECK(!value.error().to_string().empty(), text);
    return;
  }
  const std::string printed = print(*value);
  const auto again = parse(std::string_view(printed));
  FUZZ_CHECK(again.has_value(), printed);
  FUZZ_CHECK(*again == *value, printed);
  FUZZ_CHECK(print(*again) == printed, printed);
}

/// For T with parse() and to_string().
template <typename T>
void check_text(std::string_view text) {
  check_print_parse(
      text, [](std::string_view one) { return T::parse(one); },
      [](const T& value) { return value.to_string(); });
}

/// Overwrites one number of 1, 2, 4 or 8 bytes with another that is likely to hurt: a message keeps
/// its structure, and its contents, lengths and offsets change. For use in LLVMFuzzerCustomMutator,
/// between calls of LLVMFuzzerMutate.
inline void mutate_in_place(std::uint8_t* data, std::size_t size, unsigned seed) {
  if (size < 8) return;
  std::uint64_t random = seed * 0x9E3779B97F4A7C15U + 1;
  const auto draw = [&random](std::uint64_t below) {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    return random % below;
  };
  const std::size_t width = std::size_t{1} << draw(4);
  const std::size_t at = draw(size / width) * width;
  std::uint64_t value = 0;
  std::memcpy(&value, data + at, width);
  switch (draw(6)) {
    case 0: value = 0; break;
    case 1: value = ~std::uint64_t{0}; break;
    case 2: value = std::uint64_t{1} << draw(64); break;
    case 3: value += draw(16); break;
    case 4: value -= draw(16); break;
    default: value ^= std::uint64_t{1} << draw(8 * width); break;
  }
  std::memcpy(data + at, &value, width);
}

}  // namespace meshbus::fuzz

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

/// Half of the mutations leave the lay-out as it is.
#define FUZZ_MUTATE_IN_PLACE                                                                \
  extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,      \
                                                 std::size_t max_size, unsigned int seed) { \
    if (seed % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);                       \
    meshbus::fuzz::mutate_in_place(data, size, seed);                                       \
    return size;                                                                            \
  }
