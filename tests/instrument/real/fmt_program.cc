#include <fmt/args.h>
#include <fmt/color.h>
#include <fmt/compile.h>
#include <fmt/format.h>
#include <fmt/printf.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

struct point {
  double x, y;
};
template <> struct fmt::formatter<point> {
  char presentation = 'f';
  constexpr auto parse(format_parse_context &ctx) {
    auto it = ctx.begin();
    if (it != ctx.end() && (*it == 'f' || *it == 'e')) presentation = *it++;
    return it;
  }
  template <typename Context> auto format(const point &p, Context &ctx) const {
    return presentation == 'f' ? fmt::format_to(ctx.out(), "({:.1f}, {:.1f})", p.x, p.y)
                               : fmt::format_to(ctx.out(), "({:.1e}, {:.1e})", p.x, p.y);
  }
};

int main() {
  for (int i = -20; i < 20; i++)
    fmt::print("{:>6}|{:<6}|{:^6}|{:+}|{:06d}|{:#x}|{:#b}|{:o}|{:L}\n", i, i, i, i, i, i, i + 20, i * i, i * 1000000);
  for (double x : {0.0, 1.0, -2.5, 1e-10, 3.14159, 1e300, 123456789.125, 1.0 / 3})
    fmt::print("{}|{:.3f}|{:e}|{:g}|{:a}|{:10.2f}|{:<+12}|{:%>9.1f}\n", x, x, x, x, x, x, x, x);
  fmt::print("{} {:.4f} {}\n", 1.0f / 3, 1.5L, static_cast<float>(1e20));
  fmt::print("{:*^30}|{:.3}|{:>8}|{}\n", "centred", "truncated", 'c', true);
  fmt::print("{0} {1} {0} {name}\n", 1, "two", fmt::arg("name", 3.5));
  fmt::print("{:{}.{}f}|{:>{w}}\n", 2.71828, 10, 3, "w", fmt::arg("w", 5));
  std::vector<int> v{1, 2, 3};
  std::map<std::string, double> m{{"a", 1.5}, {"b", 2.5}};
  fmt::print("{} {} {} {}\n", v, m, std::make_pair(1, 'x'), fmt::join(v, "; "));
  fmt::print("{} {:e}\n", point{1, 2}, point{3, 4});
  fmt::dynamic_format_arg_store<fmt::format_context> store;
  for (int i = 0; i < 5; i++) store.push_back(i * 1.5);
  store.push_back(std::string("last"));
  fmt::print("{}\n", fmt::vformat("{} {} {} {} {} {}", store));
  fmt::printf("%5d|%-8s|%08.3f|%x|%c|%%|%+d|%*d\n", 42, "left", 3.14159, 255u, 'z', 7, 6, 9);
  fmt::print("{}\n", fmt::format(FMT_COMPILE("{}-{:x}"), 12, 255));
  std::string text = fmt::format(fg(fmt::color::red) | fmt::emphasis::bold, "styled {}", 1);
  std::fwrite(text.data(), 1, text.size(), stdout);
  for (const char *wrong : {"{", "}", "{:d}", "{0} {}", "{:.}", "{5}", "{:99999999999}"}) try {
    fmt::print("{}\n", fmt::vformat(wrong, fmt::make_format_args("text")));
  } catch (const fmt::format_error &error) {
    fmt::print("{}: {}\n", wrong, error.what());
  }
  fmt::memory_buffer buffer;
  for (unsigned long long n = 1; n; n = n < ~0ull / 7 ? n * 7 : 0) fmt::format_to(std::back_inserter(buffer), "{},", n);
  fmt::print("{} {} {}\n", buffer.size(), fmt::to_string(12345), std::string_view(buffer.data(), 40));
  fmt::print("{} {:p} {}\n", fmt::ptr(static_cast<int *>(nullptr)), static_cast<void *>(nullptr), __int128(1) << 100);
}
