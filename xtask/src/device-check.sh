#!/bin/sh
# Checks and measures Weighbridge on the GPU of this machine, without a network: `sh run.sh [quick]`, in the folder
# that `cargo xtask device-check` makes.
cd "$(dirname "$0")" || exit 1
here=$PWD
start=$(date +%s)
failed=0
title() { echo "== $1 ($(($(date +%s) - start)) s)"; }
check() {
  "$@" 2>&1 || {
    echo "FAILED: $*"
    failed=1
  }
}
bench="$here/bin/weighbridge-bench-device"
program="$here/bin/weighbridge"
export WEIGHBRIDGE_REQUIRE_GPU=1 RUST_BACKTRACE=0
export XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-/tmp}"

# Vulkan's loader is brought along. On servers without a display NVIDIA's driver is found under another name.
if ! ldconfig -p 2>/dev/null | grep -q 'libvulkan\.so\.1'; then
  export LD_LIBRARY_PATH="$here/lib:$LD_LIBRARY_PATH"
fi
if [ -z "$VK_DRIVER_FILES" ] && ! "$program" list devices | grep -q '^gpu:'; then
  driver=$(ldconfig -p | sed -n 's/.*libEGL_nvidia\.so\.0 .*=> //p' | head -n 1)
  echo "{\"file_format_version\": \"1.0.1\", \"ICD\": {\"library_path\": \"$driver\", \"api_version\": \"1.3.0\"}}" >driver.json
  export VK_DRIVER_FILES="$here/driver.json"
fi

title "devices"
grep -m 1 'model name' /proc/cpuinfo
nvidia-smi --query-gpu=name,driver_version,pcie.link.gen.current,pcie.link.width.current --format=csv,noheader 2>/dev/null
check "$program" list devices

if [ "$1" = quick ]; then
  upload=64 kernels=9 share=5 tokens=4 long=16
else
  upload=2048 kernels=1024 share=100 tokens=128 long=256
fi

title "measurements: uploads"
check "$bench" upload "$upload"
title "measurements: kernels"
check "$bench" kernels "$kernels"
title "measurements: tokens of a model of $share hundredths of 1.24 billion weights"
check "$bench" model model.gguf "$share"
for device in gpu cpu; do
  for prompt in 1,2,3 "$(seq -s , 1 "$long")"; do
    before=$(date +%s%N)
    check "$program" generate model.gguf --device "$device" --ids "$prompt" --max-tokens 1 --ignore-eos --print-ids >one
    middle=$(date +%s%N)
    check "$program" generate model.gguf --device "$device" --ids "$prompt" --max-tokens $((tokens + 1)) --ignore-eos --print-ids >many
    after=$(date +%s%N)
    first=$(((middle - before) / 1000000))
    rest=$(((after - middle) / 1000000 - first))
    echo "$device: $(echo "$prompt" | tr , '\n' | wc -l) tokens of a prompt, with loading: $first ms; $tokens more tokens: $rest ms; $(cut -c 1-60 many)"
  done
done
rm -f model.gguf one many

title "loading, verified, and generating"
for model in hf mlx-4bit sample-Q8_0.gguf; do
  check "$program" load "root/assets/sample/$model" --device gpu --verify
done
for device in gpu cpu; do
  check "$program" generate root/assets/sample/hf --device "$device" --ids 1,2,3,4 --max-tokens 32 --print-ids >"tokens-$device"
done
check cmp tokens-gpu tokens-cpu

title "tests of the library"
CARGO_MANIFEST_DIR="$here/root" check bin/tests-weighbridge --test-threads 8
title "tests of the decoder"
CARGO_MANIFEST_DIR="$here/root/reference" check bin/tests-reference
title "$([ "$failed" = 0 ] && echo passed || echo FAILED)"
exit "$failed"
