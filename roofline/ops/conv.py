"""Convolution of images: y[b, o, i, j] = sum over c, u, v of w[o, c, u, v] x[b, c, s i + d u - p, s j + d v - p].

Computed as an implicit matrix product of m = batch out_height out_width rows, n = out_channels / groups columns and
k = in_channels / groups kernel_h kernel_w, for each group. A window's overlapping reads of x hit on chip, so that a panel
of x costs its own bytes and not those of the k columns it unfolds to. Source: Chetlur et al., cuDNN, arXiv 1410.0759.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.dtypes import dtype as find_dtype
from roofline.numeric import Number, anywhere, ceil_div, maximum, minimum, total, where
from roofline.ops.base import Counts, Kernel, Machine, Op, TensorSpec, Traffic, dim, flag, number_format, operator
from roofline.ops.gemm import Gemm, behind
from roofline.ops.launched import Launched, Product, alignment, library_of


@operator(
    "conv2d",
    family="convolution",
    title="convolution of a batch of images",
    formula="2 batch out_channels out_height out_width (in_channels / groups) kernel_h kernel_w FLOP; bytes of x, w and y once",
    source="arXiv 1410.0759",
)
@dataclass(frozen=True, kw_only=True)
class Conv2d(Op):
    """y = w * x for each group; kernel, stride, padding, dilation hold for both axes unless their ``_w`` is given."""

    batch: Number = dim("images")
    in_channels: Number = dim("channels of x")
    height: Number = dim("rows of an image")
    width: Number = dim("columns of an image")
    out_channels: Number = dim("filters")
    kernel: Number = dim("rows of a filter")
    dtype: str = number_format("format of x, w and y")
    stride: Number = dim("rows between windows", default=1)
    padding: Number = dim("rows of zeros added on each side", default=0, minimum=0)
    dilation: Number = dim("rows between elements of a filter", default=1)
    kernel_w: Number = dim("columns of a filter, 0 for as many as rows", default=0, minimum=0)
    stride_w: Number = dim("columns between windows, 0 for the same as rows", default=0, minimum=0)
    padding_w: Number = dim("columns of zeros on each side, -1 for the same as rows", default=-1, minimum=-1)
    dilation_w: Number = dim("columns between elements of a filter, 0 for the same as rows", default=0, minimum=0)
    groups: Number = dim("groups of channels convolved apart", default=1)
    bias: bool = flag("add a bias for each filter")
    tile_m: Number = dim("output pixels of a block tile", default=128)
    tile_n: Number = dim("filters of a block tile", default=256)

    @property
    def kernel_width(self) -> Number:
        """Columns of a filter."""
        return where(self.kernel_w > 0, self.kernel_w, self.kernel)

    @property
    def out_height(self) -> Number:
        """Rows of the result."""
        return windows(self.height, self.kernel, self.stride, self.padding, self.dilation)

    @property
    def out_width(self) -> Number:
        """Columns of the result."""
        stride = where(self.stride_w > 0, self.stride_w, self.stride)
        padding = where(self.padding_w >= 0, self.padding_w, self.padding)
        dilation = where(self.dilation_w > 0, self.dilation_w, self.dilation)
        return windows(self.width, self.kernel_width, stride, padding, dilation)

    def check(self) -> str | None:
        """Groups divide the channels, and at least one window fits."""
        if anywhere(self.in_channels % self.groups > 0) or anywhere(self.out_channels % self.groups > 0):
            return "groups must divide in_channels and out_channels"
        if anywhere(self.out_height < 1) or anywhere(self.out_width < 1):
            return "the kernel with its dilation is larger than the padded image, so that the output is empty"
        return None

    def _image(self, name: str, role: str) -> TensorSpec:
        return TensorSpec(name, (self.batch, self.in_channels, self.height, self.width), self.dtype, role)

    def _filters(self, name: str, role: str) -> TensorSpec:
        shape = (self.out_channels, self.in_channels // self.groups, self.kernel, self.kernel_width)
        return TensorSpec(name, shape, self.dtype, role)

    def _result(self, name: str, role: str) -> TensorSpec:
        return TensorSpec(name, (self.batch, self.out_channels, self.out_height, self.out_width), self.dtype, role)

    def _biases(self, name: str, role: str) -> tuple[TensorSpec, ...]:
        return (TensorSpec(name, (self.out_channels,), self.dtype, role),) if self.bias else ()

    def tensors(self) -> tuple[TensorSpec, ...]:
        """x[batch, in_channels, height, width], w[out_channels, in_channels / groups, kernel_h, kernel_w], bias, y."""
        x = replace(self._image("x", "in"), touched=self._touched())
        return (x, self._filters("w", "weight"), *self._biases("bias", "weight"), self._result("y", "out"))

    def _touched(self) -> Number:
        """Elements of x under some window: strides wider than the window, as in a 1 x 1 shortcut, pass over the rest."""
        rows = minimum(self.height, self.out_height * self.kernel)
        columns = minimum(self.width, self.out_width * self.kernel_width)
        return self.batch * self.in_channels * rows * columns

    def product(self) -> Gemm:
        """The implicit matrix product of one group."""
        return Gemm(
            m=self.batch * self.out_height * self.out_width,
            n=self.out_channels // self.groups,
            k=self.in_channels // self.groups * self.kernel * self.kernel_width,
            dtype=self.dtype,
            out_dtype=self.dtype,
            bias=self.bias,
            tile_m=self.tile_m,
            tile_n=self.tile_n,
        )

    def counts(self) -> Counts:
        """Those of the product, for each group."""
        one = self.product().counts()
        return Counts(tensor=one.tensor * self.groups, vector=one.vector * self.groups)

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """The implicit product, of which a convolution of single pixels is an explicit one; torch adds a bias in a second kernel.

        With one channel in a group there is nothing to multiply matrices with: the window's sum runs on the vector lanes.
        """
        y = self._result("y", "out")
        engine = library_of(execution) == "engine"
        if anywhere(self.in_channels != self.groups):
            first: Launched = self._matrix(y)
        else:
            product = self.product().counts().tensor * self.groups
            first = replace(self.passes()[0].stream("elementwise", self.dtype), rows=1, cols=y.elements, flop=product, tensor_flop=0)
        return (first, behind(y, Counts(vector=1), execution)) if self.bias and not engine else (first,)

    def _matrix(self, y: TensorSpec) -> Product:
        """The kernel that multiplies matrices; a gemm where each output pixel sees one pixel of x, and all of them are seen."""
        one = self.product()
        e = find_dtype(self.dtype).bytes
        steps = (self.stride, where(self.stride_w > 0, self.stride_w, self.stride), self.groups, self.kernel, self.kernel_width)
        padding = maximum(self.padding, self.padding_w)
        pointwise = not (anywhere(padding > 0) or any(anywhere(step > 1) for step in steps))
        return Product(
            kind="gemm" if pointwise else "conv2d",
            batch=self.groups,
            m=one.m,
            n=one.n,
            k=one.k,
            dtype=self.dtype,
            read_bytes=total(t.moved_bytes for t in self.tensors()[:2]),
            write_bytes=y.moved_bytes,
            aligned=minimum(alignment(self.in_channels // self.groups * e), alignment(one.n * e)),
        )

    def compulsory(self, machine: Machine | None) -> Traffic:
        """x, w and y once; registers as in the product."""
        return replace(super().compulsory(machine), register=self.product().compulsory(machine).register * self.groups)

    def tiled(self, machine: Machine) -> Traffic:
        """x again for each tile of filters, w again for each tile of pixels; shared memory holds the unfolded product."""
        traffic, product = self.compulsory(machine), self.product()
        again = self._image("x", "in").bytes * (ceil_div(product.n, self.tile_n) - 1)
        again = again + self._filters("w", "weight").bytes * (ceil_div(product.m, self.tile_m) - 1)
        smem = product.tiled(machine).smem * self.groups
        return replace(traffic, smem=smem, l2=traffic.l2 + again, hbm=traffic.hbm + again)

    def cached(self, machine: Machine) -> Traffic:
        """Each operand once, where the filters and what a wave of tiles reads of x fit in L2; blocks share a wave's x."""
        tiled = self.tiled(machine)
        rows = maximum(ceil_div(self.product().m, self.tile_m), 1)
        wave = self._image("x", "in").bytes * minimum(machine.processors / rows, 1)
        fits = wave + self._filters("w", "weight").bytes <= machine.l2_bytes
        return replace(tiled, hbm=where(fits, self.compulsory(machine).hbm, tiled.hbm))

    def saved(self) -> tuple[TensorSpec, ...]:
        """x, for the gradient of w."""
        return (self._image("x", "in"),)

    def backward(self) -> tuple[Op, ...]:
        """dx from dy and w, and dw (and the bias) from x and dy: two products as large as the forward one."""
        dy, tensor = self._result("dy", "in"), self.counts().tensor
        return (
            Kernel(
                label="conv2d_dgrad",
                dtype=self.dtype,
                reads=(dy, self._filters("w", "weight")),
                writes=(self._image("dx", "out"),),
                arithmetic=Counts(tensor=tensor),
            ),
            Kernel(
                label="conv2d_wgrad",
                dtype=self.dtype,
                reads=(*self.saved(), dy),
                writes=(self._filters("dw", "out"), *self._biases("dbias", "out")),
                arithmetic=Counts(tensor=tensor, vector=self.counts().vector),
            ),
        )


def windows(length: Number, kernel: Number, stride: Number, padding: Number, dilation: Number) -> Number:
    """Windows of a dilated kernel along one padded axis: floor((length + 2 padding - dilation (kernel - 1) - 1) / stride) + 1.

    >>> windows(224, 7, 2, 3, 1)
    112
    """
    return (length + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
