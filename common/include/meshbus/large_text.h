#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace meshbus {

/// As text.reserve(bytes), and asks for huge pages where the text is large. New memory costs a
/// fault for each of its pages, which may take ten times as long as to copy the bytes
/// (docs/performance.md, "Large bodies"). Without huge pages it is a plain reserve(). Throws
/// std::bad_alloc. Any thread.
inline void reserve_large(std::string& text, std::size_t bytes) {
  // From here on a text has at least one huge page of 2 MiB in it, wherever it begins.
  constexpr std::size_t large = std::size_t{4} << 20;
  const bool is_new = bytes > text.capacity();
  text.reserve(bytes);
  if (!is_new || bytes < large) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(text.data());
  const auto first = (begin + page - 1) & ~(page - 1);
  const auto end = (begin + text.capacity()) & ~(page - 1);
  // A kernel without huge pages refuses, and nothing is lost.
  ::madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
}

/// The bytes in a text of their own, made with reserve_large(): for a handler that keeps or answers
/// a large body, `return meshbus::copy_large(call.body);`. Throws std::bad_alloc. Any thread.
inline std::string copy_large(std::string_view bytes) {
  std::string text;
  reserve_large(text, bytes.size());
  text.append(bytes);
  return text;
}

}  // namespace meshbus
