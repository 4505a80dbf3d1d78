"""The detector on files that PyTorch itself wrote."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

from checkpoint_tax.reconcile.inspect import ForbiddenGlobal, Inspection, inspect_checkpoint
from checkpoint_tax.reconcile.inspect_files import StoredTensor, open_state
from checkpoint_tax.reconcile.torch_recorder import Recorder, cut_into_shards, write_states
from checkpoint_tax.reconcile.window import reconcile, torn_state

# A save from a single process is what is meant here.
pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")


def kinds(inspection: Inspection) -> set[str]:
    return {finding.kind for finding in inspection.findings}


def trained(
    n_steps: int, make: Any = torch.optim.AdamW, **options: Any
) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(), torch.nn.Linear(32, 5), torch.nn.LayerNorm(5)
    )
    model = model.to(memory_format=torch.channels_last)
    optimizer = make(model.parameters(), **{"lr": 1e-2, **options})
    for _ in range(n_steps):
        optimizer.zero_grad()
        model(torch.randn(2, 3, 4, 4)).square().sum().backward()
        optimizer.step()
    return model, optimizer


def save(path: Path, form: str, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Path:
    if form.startswith("torch.save"):
        content = {"model": model.state_dict(), "optim": optimizer.state_dict()}
        content["rng"] = torch.get_rng_state()
        content["numpy"] = np.random.default_rng(0).standard_normal(3)
        torch.save(content, path, _use_new_zipfile_serialization="before" not in form)
        return path
    options = StateDictOptions(flatten_optimizer_state_dict="flattened" in form)
    weights, state = get_state_dict(model, optimizer, options=options)
    content = {"model": weights, "optim": state, "rng": torch.get_rng_state()}
    if "numbered" in form:
        content["optim"] = optimizer.state_dict()
    dcp.save(content, checkpoint_id=path, no_dist=True)
    return path


FORMS = (
    "torch.save",
    "torch.save before 1.6",
    "distributed",
    "distributed, flattened",
    "distributed, numbered",
)
OPTIMIZERS = {
    "single": (torch.optim.AdamW, {"foreach": False}),
    "fused": (torch.optim.AdamW, {"fused": True}),
    "amsgrad": (torch.optim.Adam, {"amsgrad": True}),
    "momentum": (torch.optim.SGD, {"momentum": 0.9}),
    "no moments": (torch.optim.SGD, {}),
    "Adamax": (torch.optim.Adamax, {}),
    "RMSprop": (torch.optim.RMSprop, {"momentum": 0.9}),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("form", FORMS)
def test_a_whole_state_is_clean(tmp_path: Path, form: str, name: str) -> None:
    make, options = OPTIMIZERS[name]
    path = save(tmp_path / "step_7", form, *trained(7, make, **options))
    seen = inspect_checkpoint(path)
    assert seen.findings == ()
    assert seen.step == 7
    if "moment" not in name:
        assert (seen.n_parameters, seen.counters) == (6, (7.0,))
        assert not any("were not judged" in note for note in seen.notes)


@pytest.mark.parametrize("form", FORMS)
def test_real_skew_is_found(tmp_path: Path, form: str) -> None:
    model, optimizer = trained(7)
    late = list(model.parameters())[2]
    optimizer.state[late]["step"] += 1
    optimizer.state[late]["exp_avg"][0, 0] = torch.nan
    optimizer.state[late]["exp_avg_sq"][1, 1] = -1e-12
    seen = inspect_checkpoint(save(tmp_path / "step_7", form, model, optimizer))
    assert kinds(seen) == {
        "steps-differ",
        "step-against-folder",
        "moment-non-finite",
        "second-moment-negative",
    }


@pytest.mark.parametrize(("dtype", "stop"), [(torch.bfloat16, 256), (torch.float16, 2048)])
def test_half_precision_counters_stop_where_it_is_said(
    tmp_path: Path, dtype: torch.dtype, stop: int
) -> None:
    counter = torch.tensor(float(stop - 1), dtype=dtype)
    for _ in range(3):
        counter += 1
    assert counter.item() == stop
    model, optimizer = trained(3)
    for kept in optimizer.state.values():
        kept["step"] = counter
    for form in ("torch.save", "distributed"):
        folder = tmp_path / form
        folder.mkdir()
        path = save(folder / f"step_{stop + 2}", form, model, optimizer)
        seen = inspect_checkpoint(path)
        assert kinds(seen) == {"half-precision-step", "step-against-folder"}
        assert f"cannot count past {stop}; 6 stand still there already" in " ".join(
            finding.sentence for finding in seen.findings
        )


@pytest.mark.parametrize("form", FORMS)
def test_two_real_checkpoints_are_compared(tmp_path: Path, form: str) -> None:
    first, second = trained(7), trained(9)
    one = save(tmp_path / "step_7", form, *first)
    assert inspect_checkpoint(save(tmp_path / "step_9", form, *second), against=one).clean
    old, new = (list(run[1].state.values())[2] for run in (first, second))
    new["exp_avg"], new["exp_avg_sq"] = old["exp_avg"], old["exp_avg_sq"]
    seen = inspect_checkpoint(save(tmp_path / "iter_9", form, *second), against=one)
    assert kinds(seen) == {"moment-stale"}


def test_every_tensor_is_read_as_torch_reads_it(tmp_path: Path) -> None:
    torch.manual_seed(1)
    base = torch.randn(6, 8)
    tensors = {
        "plain": base,
        "transposed": base.T,
        "middle": base[1:5, 2:7],
        "every other": base[::2, ::3],
        "expanded": torch.randn(1, 4).expand(3, 4),
        "scalar": torch.tensor(3.5),
        "empty": torch.empty(0, 3),
        "channels last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "parameter": torch.nn.Parameter(torch.randn(3)),
        "bfloat16": base.bfloat16(),
        "float16": base.half(),
        "float64": base.double(),
        "int64": torch.arange(-3, 3),
        "int8": torch.arange(-3, 3, dtype=torch.int8),
        "uint16": torch.arange(5).to(torch.uint16),
        "bool": base > 0,
    }
    folder = tmp_path / "folder"
    torch.save(tensors, tmp_path / "new")
    torch.save(
        {k: t for k, t in tensors.items() if k != "uint16"},
        tmp_path / "old",
        _use_new_zipfile_serialization=False,
    )
    dcp.save(tensors, checkpoint_id=folder, no_dist=True)
    for path in (tmp_path / "new", tmp_path / "old", folder):
        leaves = open_state(path).leaves
        assert len(leaves) >= len(tensors) - 1
        for name, leaf in leaves.items():
            assert isinstance(leaf, StoredTensor)
            expected = tensors[name].detach().contiguous()
            assert leaf.shape == tuple(expected.shape)
            assert leaf.dtype == str(expected.dtype).removeprefix("torch.")
            found = np.concatenate([np.empty(0), *(b for p in leaf.pieces for b in p.blocks())])
            # Block by block in the order on disk, which strides may have turned.
            assert np.array_equal(np.sort(found), np.sort(expected.double().numpy().ravel())), name
            raw = np.ascontiguousarray(leaf.gathered()).tobytes()
            assert raw == expected.reshape(-1).view(torch.uint8).numpy().tobytes(), name


class _Harm:
    """What an attacker would put into a checkpoint."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.witness}",)


@pytest.mark.parametrize("form", FORMS)
def test_a_hostile_file_is_refused_and_not_run(tmp_path: Path, form: str) -> None:
    witness = tmp_path / "witness"
    content = {"model": {"w": torch.ones(2)}, "extra": _Harm(witness)}
    path = tmp_path / "state"
    if form.startswith("torch.save"):
        torch.save(content, path, _use_new_zipfile_serialization="before" not in form)
    else:
        dcp.save(content, checkpoint_id=path, no_dist=True)
    with pytest.raises(ForbiddenGlobal, match=r"it names (posix|nt|os)\.system"):
        inspect_checkpoint(path)
    assert not witness.exists()
    if form == "torch.save":
        # A control: the file does what it threatens in a reader that trusts it.
        torch.load(path, weights_only=False)
        assert witness.exists()


@pytest.mark.parametrize("form", FORMS)
def test_a_torn_window_shows_and_its_repair_does_not(tmp_path: Path, form: str) -> None:
    """Whole parameters at different versions, as a drain that does not wait leaves them."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(9, 7), torch.nn.Tanh(), torch.nn.Linear(7, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=True)
    sizes = [p.numel() for p in model.parameters()]
    edges = np.cumsum(sizes)[:-1].tolist()
    shards = cut_into_shards(model.named_parameters(), edges, [10, 11, 12, 13])
    recorder = Recorder(model, optimizer, shards)
    for iteration in range(13):
        torch.manual_seed(iteration)
        optimizer.zero_grad()
        model(torch.randn(4, 9)).square().mean().backward()
        optimizer.step()
        recorder.iteration()
    window = recorder.window()
    write_states(torn_state(window), model, optimizer)
    seen = inspect_checkpoint(save(tmp_path / "step_13", form, model, optimizer))
    assert kinds(seen) == {"steps-differ", "step-against-folder"}
    assert seen.counters == (10.0, 11.0, 12.0, 13.0)
    for target, version in (("newest", 13), ("median", 10), ("oldest", 10)):
        found = reconcile(window, target, recorder.optimizer)
        assert found.target == version
        write_states(found.states, model, optimizer)
        folder = tmp_path / target
        folder.mkdir()
        path = save(folder / f"step_{version}", form, model, optimizer)
        assert inspect_checkpoint(path).clean


def test_shards_of_two_ranks_are_put_together(tmp_path: Path) -> None:
    """FSDP on two processes: one tensor, two parts; then one rank's parts of an older save."""
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            import torch
            import torch.distributed as dist
            import torch.distributed.checkpoint as dcp
            from torch.distributed.checkpoint.state_dict import get_state_dict
            from torch.distributed.fsdp import fully_shard

            rank, store, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
            torch.set_num_threads(1)
            dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
            torch.manual_seed(0)
            mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
            model = torch.nn.Sequential(torch.nn.Linear(9, 7), torch.nn.Linear(7, 3))
            fully_shard(model, mesh=mesh)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
            for step in range(1, 7):
                optimizer.zero_grad()
                model(torch.randn(4, 9)).square().mean().backward()
                optimizer.step()
                if step in (4, 6):
                    weights, state = get_state_dict(model, optimizer)
                    content = {"model": weights, "optim": state}
                    dcp.save(content, checkpoint_id=f"{folder}/step_{step}")
            dist.destroy_process_group()
            """
        )
    )
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), str(tmp_path / "store"), str(tmp_path)],
            env=environment,
        )
        for rank in range(2)
    ]
    try:
        assert [rank.wait(120) for rank in ranks] == [0, 0]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    one, two = tmp_path / "step_4", tmp_path / "step_6"
    seen = inspect_checkpoint(two, against=one)
    assert seen.findings == ()
    assert (seen.n_parameters, seen.counters) == (4, (6.0,))
    leaves = open_state(two).leaves
    weight = leaves["optim.state.0.weight.exp_avg"]
    assert isinstance(weight, StoredTensor)
    assert [piece.shape for piece in weight.pieces] == [(4, 9), (3, 9)]
    # An overwritten folder, killed half way: rank 1's file is still the older one. It loads, and
    # weights and moments of each half belong together; the counters are in that file.
    (two / "__1_0.distcp").write_bytes((one / "__1_0.distcp").read_bytes())
    torn = inspect_checkpoint(two, against=one)
    assert {"step-against-folder", "step-stale"} <= kinds(torn)
    assert torn.counters == (4.0,)
