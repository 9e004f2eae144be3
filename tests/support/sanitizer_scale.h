#pragma once

// What ThreadSanitizer costs, for limits that are right without it. Its own documentation says 5 to
// 15 times the time and 5 to 10 times the memory; our limits leave room for three times of the
// former, because machines are busy, and twice the latter, for AddressSanitizer.
#if defined(__SANITIZE_THREAD__)
#define MESHBUS_TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MESHBUS_TEST_TSAN 1
#endif
#endif
#if !defined(MESHBUS_TEST_TSAN)
#define MESHBUS_TEST_TSAN 0
#endif

namespace meshbus::test {

inline constexpr bool is_tsan = MESHBUS_TEST_TSAN != 0;
/// Multiplies the time that something may take.
inline constexpr int slowness = is_tsan ? 5 : 1;
/// Multiplies the memory that something may take.
inline constexpr int memory_scale = is_tsan ? 4 : 1;

}  // namespace meshbus::test
