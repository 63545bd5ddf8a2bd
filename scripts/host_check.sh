#!/bin/sh
# What must be on the machine before the Python environment can be made, checked with a plain shell because Python
# itself may be missing. Everything else comes from Python packages.
#
#   scripts/host_check.sh              names what is missing with the remedy; exit code 1 if anything is
#   scripts/host_check.sh --packages   prints only the Debian packages to install, nothing if complete
#   scripts/host_check.sh --optional   prints the Debian packages without which some tests are skipped
#
# Reads PYTHON (default python3) and CXX (default: the first of g++, c++, clang++) from the environment.
set -u

if [ "${1:-}" = "--optional" ]; then
    # A second simulator, independent of Verilator.
    command -v iverilog >/dev/null 2>&1 && command -v vvp >/dev/null 2>&1 || echo iverilog
    # Reads waves, independent of Verilator.
    command -v fst2vcd >/dev/null 2>&1 || echo gtkwave
    # Opens reports.
    command -v chromium >/dev/null 2>&1 || echo chromium
    # Compiles the driver for the processor of a SoC.
    command -v riscv64-unknown-elf-gcc >/dev/null 2>&1 || echo gcc-riscv64-unknown-elf
    exit 0
fi

python=${PYTHON:-python3}
packages=""
report=""

missing() { # what, why it is needed, Debian packages, remedy if it is not to install those
    packages="$packages${3:+ $3}"
    report="$report
  $1
      needed for: $2
      what to do: ${4:-apt-get install $3}"
}

# The C++ compiler, or nothing.
compiler() {
    for name in ${CXX:-g++ c++ clang++}; do
        if command -v "$name" >/dev/null 2>&1; then
            echo "$name"
            return
        fi
        # CXX may carry flags after the program; only the program is looked up.
        if [ -n "${CXX:-}" ]; then return; fi
    done
}

if ! command -v "$python" >/dev/null 2>&1; then
    missing "Python 3.11 or newer ($python was not found)" "everything" "python3 python3-venv libpython3-dev"
else
    state=$("$python" - <<'END'
import importlib.util, os, sys, sysconfig
if sys.version_info < (3, 11):
    print("old", end=" ")
if any(importlib.util.find_spec(name) is None for name in ("venv", "ensurepip")):
    print("venv", end=" ")
# cocotb loads Python as a shared library into the simulator; Debian ships that as a package of its own.
config = sysconfig.get_config_var
folders = [config("LIBDIR"), os.path.join(sys.base_prefix, "lib")]
names = [config("INSTSONAME"), config("LDLIBRARY")]
files = [os.path.join(f, n) for f in folders for n in names if f and n and ".so" in n]
if not any(os.path.exists(f) for f in files):
    print("libpython", end=" ")
print(f"{sys.version_info[0]}.{sys.version_info[1]}")
END
    )
    version=${state##* }
    case " $state " in *" old "*)
        missing "Python 3.11 or newer ($python is $version)" "everything" "" \
            "install a newer Python and name it: make PYTHON=python3.11 ..." ;;
    esac
    case " $state " in *" venv "*)
        missing "the venv module of $python" "a Python environment of its own" "python3-venv" ;;
    esac
    case " $state " in *" libpython "*)
        missing "the shared library of $python" "running cocotb inside the simulator" "libpython$version" ;;
    esac
fi
[ -n "$(compiler)" ] ||
    missing "a C++ compiler (${CXX:-g++, c++ or clang++} was not found)" "compiling the simulation" "g++"
command -v make >/dev/null 2>&1 ||
    missing "make" "compiling the simulation" "make"
# Debian's perl-base is not enough: it lacks modules that Verilator's front end loads.
perl -MGetopt::Long -MFindBin -MPod::Usage -e 1 >/dev/null 2>&1 ||
    missing "perl with its standard modules" "Verilator's front end" "perl"

if [ "${1:-}" = "--packages" ]; then
    echo $packages
elif [ -n "$report" ]; then
    echo "This machine lacks something that mase_hw needs:$report" >&2
    [ -z "$packages" ] || echo "All at once, as root: apt-get install$packages" >&2
    exit 1
fi
