#!/bin/bash
# Tests a runner image from inside, without a GPU and without a network: test.sh FLAVOUR RUNNER_VERSION CUDA CUDNN < /dev/null
# Prints a line for each check. Status 1 if one fails.
# shellcheck disable=SC2329 # `check` calls the functions
set -uo pipefail
flavour=${1:?base, runtime or devel} runner=${2:?} cuda=${3:?} cudnn=${4:?}
failed=0

# check WHAT EXPECTED COMMAND...: the output of the command must contain EXPECTED.
check() {
  local what=$1 expected=$2 output
  shift 2
  output=$("$@" 2>&1 </dev/null) || output="status $?: $output"
  if [[ $output == *"$expected"* && $output != status* ]]; then
    printf 'ok      %s: %s\n' "$what" "$(grep -m 1 -F -- "$expected" <<<"$output")"
  else
    printf 'FAILED  %s: expected %s, got %s\n' "$what" "$expected" "$output"
    failed=1
  fi
}

compile() {
  cat >"$work/add.cu" <<'CUDA'
#include <cstdio>
__global__ void add(int *x) { *x += 1; }
int main() {
  int *x = nullptr, y = 41;
  if (cudaMalloc(&x, sizeof y) != cudaSuccess) { std::puts("compiled; no GPU here"); return 0; }
  cudaMemcpy(x, &y, sizeof y, cudaMemcpyHostToDevice);
  add<<<1, 1>>>(x);
  cudaMemcpy(&y, x, sizeof y, cudaMemcpyDeviceToHost);
  std::printf("compiled; the GPU says %d\n", y);
  return y != 42;
}
CUDA
  cat >"$work/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.22)
project(add LANGUAGES CXX CUDA)
add_executable(add add.cu)
CMAKE
  if ! { cmake -S "$work" -B "$work/build" -G Ninja -DCMAKE_CUDA_ARCHITECTURES=75 -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache &&
    cmake --build "$work/build"; } >"$work/log" 2>&1; then
    tail -n 20 "$work/log"
    return 1
  fi
  "$work/build/add"
}

hooks() {
  export GITHUB_WORKSPACE=/home/runner/_work/test/test GITHUB_STEP_SUMMARY=$work/summary
  mkdir -p "$GITHUB_WORKSPACE" && touch "$GITHUB_WORKSPACE/left" "$GITHUB_STEP_SUMMARY" &&
    bash -e "$ACTIONS_RUNNER_HOOK_JOB_STARTED" && [[ ! -e $GITHUB_WORKSPACE/left ]] &&
    bash -e "$ACTIONS_RUNNER_HOOK_JOB_COMPLETED" && grep -q workspace "$GITHUB_STEP_SUMMARY" && echo passed
}

# Loads a library and prints the version that it states: 12.1 for 12010 of the CUDA runtime, 9.8.0 for 90800 of cuDNN.
cuda_version() {
  python3 -c 'import ctypes, sys
found = ctypes.c_int()
assert ctypes.CDLL(sys.argv[1]).cudaRuntimeGetVersion(ctypes.byref(found)) == 0
print("%d.%d" % (found.value // 1000, found.value % 1000 // 10))' "libcudart.so.${cuda%%.*}"
}
cudnn_version() {
  python3 -c 'import ctypes, sys
found = ctypes.CDLL(sys.argv[1]).cudnnGetVersion()
unit = 10000 if found >= 90000 else 1000
print("%d.%d.%d" % (found // unit, found % unit // 100, found % 100))' "libcudnn.so.${cudnn%%.*}"
}

work=$(mktemp -d)
check 'user' 1001 id -u
check 'no sudo' 'no sudo' bash -c 'command -v sudo || echo no sudo'
check 'Actions runner' "$runner" /home/runner/bin/Runner.Listener --version
check 'Python packages' 'numpy' python3 -c 'import numpy, yaml; print("numpy", numpy.__version__, "pyyaml", yaml.__version__)'
check 'pip' 'pip' pip --version
check 'git' 'git version' git --version
check 'job hooks' 'passed' hooks
check 'CUDA runtime' "${cuda%.*}" cuda_version
if [[ $flavour != base ]]; then
  check 'cuDNN' "$cudnn" cudnn_version
fi
if [[ $flavour == devel ]]; then
  check 'cmake' 'cmake version' cmake --version
  check 'ninja' '1.' ninja --version
  check 'ccache' 'ccache version' ccache --version
  check 'sccache' 'sccache' sccache --version
  check 'nvcc' "release ${cuda%.*}" nvcc --version
  check 'CUDA program' 'compiled' compile
fi
exit "$failed"
